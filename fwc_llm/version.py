"""The version, written once: the package, its metadata and the surrogate's server read it here."""

__version__ = "0.1.0"
