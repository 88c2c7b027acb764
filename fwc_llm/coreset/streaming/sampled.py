"""The sample of a table in blocks, or all of a small one, as a table in memory."""

from typing import Any

import numpy as np

from fwc_llm.coreset.certificate import published
from fwc_llm.coreset.problem.encoding import Encoder, Table
from fwc_llm.coreset.problem.input_rows import InputRows
from fwc_llm.coreset.streaming.blocks import Block, Source, Survey
from fwc_llm.coreset.streaming.columns.factors import stacked
from fwc_llm.coreset.weights import read_weights


def is_whole(survey: Survey) -> bool:
    """Whether the sample holds every row that counts."""
    return len(survey.positions) == int(survey.cells.counts.sum())


def whole_table(source: Source) -> tuple[Any, Any, Any, Any]:
    """All rows with their y, sensitive and weights, None for what was not given, as their owner has them."""
    held: list[Block] = source.reduce(_alone, _both)
    blocks = sorted(held, key=lambda block: block.index)
    texts: frozenset[str] = getattr(source, "texts", frozenset())
    return tuple(  # type: ignore[return-value]
        None
        if getattr(blocks[0], part) is None
        else stacked([getattr(block, part) for block in blocks], texts)
        for part in ("rows", "y", "sensitive", "weight")
    )


def _alone(block: Block) -> list[Block]:
    return [block]


def _both(one: list[Block], other: list[Block]) -> list[Block]:
    return one + other


def rows_of(survey: Survey) -> InputRows:
    """The sample as rows that a caller gave; their cells are counted over the whole table."""
    masses = read_weights(survey.mass, survey.sample.n)
    return InputRows(survey.encoding, survey.sample, survey.cells, masses, None, survey.sample.n)


def widths_of(survey: Survey) -> tuple[int, ...]:
    """How many categories each categorical column has."""
    if isinstance(survey.encoding, Encoder):
        return tuple(len(column.values) for column in survey.encoding.columns if column.kind == "categorical")
    return tuple(int(codes.max()) + 1 for codes in survey.sample.codes.T)


def as_published(points: np.ndarray, survey: Survey) -> np.ndarray:
    """Free points (m, p) as they will be returned: ordinal columns at ranks, in the precision of X."""
    encoding = survey.encoding
    if isinstance(encoding, Encoder) and encoding.has_ranks:
        points = encoding.to_ranks(points)
    like = Table(survey.sample.numbers[:1], survey.sample.codes[:1])
    return published(points, None, like, encoding)[0]
