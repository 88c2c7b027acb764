"""Fair Wasserstein Coresets: arrays in, arrays out."""

from typing import TYPE_CHECKING

from fwc_llm.lazy import lazy_names

if TYPE_CHECKING:
    from fwc_llm.coreset.certificate import CoresetCertificate as CoresetCertificate
    from fwc_llm.coreset.certificate import certify as certify
    from fwc_llm.coreset.estimator import FairCoreset as FairCoreset
    from fwc_llm.coreset.transport.inner_problem import Transport as Transport
    from fwc_llm.coreset.transport.inner_problem import fair_transport as fair_transport

_HOME = {
    "CoresetCertificate": "certificate",
    "FairCoreset": "estimator",
    "Transport": "transport.inner_problem",
    "certify": "certificate",
    "fair_transport": "transport.inner_problem",
}

__all__ = list(_HOME)
__getattr__, __dir__ = lazy_names(__name__, _HOME)
