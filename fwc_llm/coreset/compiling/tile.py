"""Feature costs of rows to a tile of representatives, as fast as this numba allows."""

from types import ModuleType

from numba import config

from fwc_llm.coreset.compiling import plain_tile
from fwc_llm.coreset.compiling.kernel import try_private
from fwc_llm.coreset.compiling.plain_tile import ROWS, WIDTH

__all__ = ["ROWS", "WIDTH", "l1_pair", "l1_tile", "sqeuclidean_pair", "sqeuclidean_tile"]


def _hand_laid() -> ModuleType:
    from fwc_llm.coreset.compiling import hand_laid_tile

    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        raise RuntimeError("NUMBA_DISABLE_JIT is set, and Python cannot run it")
    return hand_laid_tile


_tile = try_private("hand-laid vector code for the solver", _hand_laid, plain_tile)
l1_tile, sqeuclidean_tile = _tile.l1_tile, _tile.sqeuclidean_tile
l1_pair, sqeuclidean_pair = _tile.l1_pair, _tile.sqeuclidean_pair
