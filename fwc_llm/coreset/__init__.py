"""Fair Wasserstein Coresets: arrays in, arrays out."""

from typing import TYPE_CHECKING

from fwc_llm.lazy import lazy_names

if TYPE_CHECKING:
    from fwc_llm.coreset.certificate import CoresetCertificate as CoresetCertificate
    from fwc_llm.coreset.certificate import certify as certify
    from fwc_llm.coreset.estimator import FairCoreset as FairCoreset
    from fwc_llm.coreset.fairwasp import FairWASP as FairWASP
    from fwc_llm.coreset.path import FairPath as FairPath
    from fwc_llm.coreset.path import fair_path as fair_path
    from fwc_llm.coreset.transport.fair import Transport as Transport
    from fwc_llm.coreset.transport.fair import fair_transport as fair_transport

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

__all__ = list(_HOME)
__getattr__, __dir__ = lazy_names(__name__, _HOME)
