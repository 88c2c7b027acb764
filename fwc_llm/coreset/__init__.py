"""Fair Wasserstein Coresets: arrays in, arrays out."""

from typing import TYPE_CHECKING

from fwc_llm.lazy import lazy_names

if TYPE_CHECKING:
    from fwc_llm.coreset.certificate import certify as certify
    from fwc_llm.coreset.estimator import FairCoreset as FairCoreset

_HOME = {"FairCoreset": "estimator", "certify": "certificate"}

__all__ = list(_HOME)
__getattr__, __dir__ = lazy_names(__name__, _HOME)
