"""The package's version, for its metadata and the surrogate's server."""

__version__ = "0.1.0"
