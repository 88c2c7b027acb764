"""Answers in a data frame as the input of statistics, read as `audit` reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from fwc_llm.data.raw_table import frame_table
from fwc_llm.meaning import MeaningRule
from fwc_llm.metrics.audit_table import answers_of
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.metrics.sampling_design import WORST, SamplingDesign, Unread
from fwc_llm.report.predictions_reader import HowRead, read_answers


def from_frame(
    frame: pd.DataFrame,
    design: str = "group",
    attributes: Sequence[str] = (),
    *,
    protected: str | Sequence[str] = (),
    rules: Mapping[str, MeaningRule] = {},
    min_group: int = 30,
    margin: float = 0.05,
    against: str = "",
    unread: Unread = WORST,
    least_groups: int = 2,
    **named: str | None,
) -> RunAnswers:
    """The answers in a frame, read as `audit` reads them, also of a single group."""
    names = [protected] if isinstance(protected, str) else list(protected)
    roles = ("answer", "label", "arm", "repeat", "row", "p_yes", "examples")
    columns = {
        role: role for role in roles if role in frame.columns and role not in named
    }
    columns |= {role: name for role, name in named.items() if name is not None}
    read = read_answers(frame_table(frame), HowRead(columns, names, rules))
    sampling = SamplingDesign(
        labels_fixed=design == "group and label",
        min_group=min_group,
        margin=margin,
        labelled="label" in columns,
        unread=unread,
    )
    answered = answers_of(read, sampling, against=against, least_groups=least_groups)
    return replace(answered, attributes=tuple(attributes or answered.attributes))
