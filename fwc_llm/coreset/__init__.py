"""Fair Wasserstein Coresets: arrays in, arrays out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fwc_llm.coreset.estimator import FairCoreset
    from fwc_llm.coreset.fairwasp.fairwasp import FairWASP
    from fwc_llm.coreset.transport.fair import Transport, fair_transport

__all__ = ["FairCoreset", "FairWASP", "Transport", "fair_transport"]

_HOME = {
    "FairCoreset": "estimator",
    "FairWASP": "fairwasp.fairwasp",
    "Transport": "transport.fair",
    "fair_transport": "transport.fair",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"fwc_llm.coreset.{_HOME[name]}"), name)
    raise AttributeError(f"module 'fwc_llm.coreset' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
