"""The sample of a table in blocks, as a table in memory."""

import numpy as np

from fwc_llm.coreset.interface.given import Given
from fwc_llm.coreset.interface.represented import published
from fwc_llm.coreset.problem.encoding import Encoder, Table
from fwc_llm.coreset.streaming.blocks import Survey
from fwc_llm.coreset.weights import read_weights


def is_whole(survey: Survey) -> bool:
    """Whether the sample holds every row that counts."""
    return len(survey.positions) == int(survey.cells.counts.sum())


def rows_of(survey: Survey) -> Given:
    """The sample as rows that a caller gave; their cells are counted over the whole table."""
    masses = read_weights(survey.mass, survey.sample.n)
    return Given(survey.encoding, survey.sample, survey.cells, masses, None, survey.sample.n)


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
