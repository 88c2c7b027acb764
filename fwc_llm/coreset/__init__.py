"""Fair Wasserstein Coresets: arrays in, arrays out."""

from typing import TYPE_CHECKING

from fwc_llm.lazy import lazy_names

if TYPE_CHECKING:
    from fwc_llm.coreset.certificate import CoresetCertificate, certify
    from fwc_llm.coreset.estimator import FairCoreset
    from fwc_llm.coreset.fairwasp import FairWASP
    from fwc_llm.coreset.path import FairPath, fair_path
    from fwc_llm.coreset.transport.fair import Transport, fair_transport

__all__ = [
    "CoresetCertificate",
    "FairCoreset",
    "FairPath",
    "FairWASP",
    "Transport",
    "certify",
    "fair_path",
    "fair_transport",
]

_HOME = {
    "CoresetCertificate": "certificate",
    "FairCoreset": "estimator",
    "FairPath": "path",
    "FairWASP": "fairwasp",
    "Transport": "transport.fair",
    "certify": "certificate",
    "fair_path": "path",
    "fair_transport": "transport.fair",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
