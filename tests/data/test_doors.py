"""Every door reads a messy table alike: tasks and audits, of files and of frames."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fwc_llm import FwcError, audit, load_task
from fwc_llm.data.task_inference import draft_task
from fwc_llm.metrics.run_answers import RunAnswers
from fwc_llm.report.audit_file import AuditOptions, audit_of_file
from fwc_llm.tasks import Task

N = 240
PAIRS = [
    ("yes", "no"),
    ("Yes.", "NO"),
    ("1", "0"),
    ("1.0", "0.0"),
    ("2", "1"),
    ("ja", "nein"),
    ("approved", "denied"),
    ("hired", "not hired"),
    (">50K", "<=50K"),
    ("bewilligt", "abgelehnt"),
    ("accordé", "refusé"),
    ("TRUE", "false"),
    ("high", "low"),
    ("A", "B"),
]
UNKNOWN = ["", "?", "NaN", "n/a", "keine Angabe", "prefer not to say", "unknown", "9", "pending"]
GROUPS = [
    ("women", "men"),
    ("Ontario", "ontario "),
    ("Québec", "Que\u0301bec"),
    ("25-34", ">74"),
    ("1", "2"),
    ("WH", "NA"),
    ("Köln", "Bonn, Süd"),
    ("a & b", "c"),
]
Counts = dict[str, tuple[int, int]]


def of_task(task: Task) -> Counts:
    """Rows of each group by no and yes; a task leaves out whom it cannot use."""
    cells = task.cells_of(task.table).tolist()
    return {group: (no, yes) for group, (no, yes) in zip(task.groups, cells, strict=True)}


def of_answers(answered: RunAnswers) -> Counts:
    """Answers of each group by no and yes."""
    answers = answered.answers["answers"]
    counts = pd.crosstab(np.asarray(answers.group, object), answers.answer)
    counts = counts.reindex(columns=[0.0, 1.0], fill_value=0)
    return {str(group): (int(no), int(yes)) for group, no, yes in counts.itertuples()}


def drafted(frame: pd.DataFrame, path: Path) -> Task:
    folder = path.parent
    (folder / "t.toml").write_text(
        draft_task(path, ["group"], "said", folder).text, encoding="utf-8"
    )
    return load_task(folder / "t.toml")


def doors(frame: pd.DataFrame, folder: Path) -> dict[str, Callable[[], Counts]]:
    """Each way to read the table."""
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t2.csv", index=False, sep=";", encoding="utf-16")
    frame.to_parquet(folder / "t.parquet")
    frame.to_json(folder / "t.jsonl", orient="records", lines=True)
    found: dict[str, Callable[[], Counts]] = {}
    for name in ("t.csv", "t2.csv", "t.parquet", "t.jsonl"):
        path = folder / name
        options = AuditOptions(protected=("group",), answer="said", missing="group")
        found[f"task of {name}"] = lambda path=path: of_task(drafted(frame, path))
        found[f"audit of {name}"] = lambda path=path: of_answers(
            audit_of_file(path, options).crossed
        )
    frames = {"pandas": frame, "Polars": pl.from_pandas(frame)}
    frames["Arrow"] = pa.Table.from_pandas(frame)
    for name, one in frames.items():
        found[f"task of {name}"] = lambda one=one: of_task(
            load_task(one, protected="group", outcome="said")
        )
        found[f"audit of {name}"] = lambda one=one: of_answers(
            audit(
                one, answer="said", protected="group", label=None, p_yes=None, missing="group"
            ).answered
        )
    return found


def outcome_of(door: Callable[[], Counts]) -> Counts | str:
    """What a door finds; for a refusal the values that need a meaning."""
    try:
        return door()
    except FwcError as error:
        text = str(error)
        if "say what" in text or "say which" in text:
            return text[text.index("has ") : text.index(":", text.index("say "))]
        return text


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(PAIRS),
    st.sampled_from(UNKNOWN),
    st.sampled_from(GROUPS),
    st.sampled_from(UNKNOWN[:-2]),
    st.integers(0, 99),
)
def test_every_door_reads_the_same_people_and_answers(
    tmp_path_factory: pytest.TempPathFactory,
    pair: tuple[str, str],
    no_answer: str,
    groups: tuple[str, str],
    no_group: str,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    said = rng.choice([*pair, no_answer], N, p=[0.4, 0.5, 0.1])
    group = rng.choice([*groups, "third", no_group], N, p=[0.3, 0.3, 0.3, 0.1])
    frame = pd.DataFrame({"group": group, "age": rng.integers(20, 90, N), "said": said})
    found = {
        name: outcome_of(door)
        for name, door in doors(frame, tmp_path_factory.mktemp("doors")).items()
    }
    for name, counts in found.items():
        known = found["task of t.csv"]
        assert counts == known, (name, found)
