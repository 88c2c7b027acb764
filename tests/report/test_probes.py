"""What --counterfactual and --logprobs asked for is answered in the terminal too."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fwc_llm.report.probes import FLIPS, MOST_DIRECTIONS, NO_PROBABILITY, PROBABILITIES, probes

from fwc_llm.metrics.statistics import statistics
from fwc_llm.report.read import read_run
from fwc_llm.report.terminal import as_text, statistics_lines

MakeRun = Callable[..., Path]


def test_the_terminal_answers_what_was_asked(make_run: MakeRun) -> None:
    folder = make_run(repeats=2, probabilities=True, counterfactual=True)
    text = as_text(statistics_lines(folder), 160)
    found = statistics(read_run(folder).answered)
    assert FLIPS in text
    assert PROBABILITIES in text
    for arm in found["arms"]:
        assert f"{arm['probabilities']['auc']:.3f}" in text
        for flip in arm["flips"]:
            assert f"{100 * flip['rate']:.1f} (" in text
            assert f") +{flip['to_yes']} −{flip['to_no']}" in text


def test_nothing_is_said_that_was_not_asked(make_run: MakeRun) -> None:
    text = as_text(statistics_lines(make_run(repeats=1)), 160)
    assert not [part for part in (FLIPS, PROBABILITIES, NO_PROBABILITY) if part in text]


def test_probabilities_that_never_came_are_missed(make_run: MakeRun) -> None:
    text = as_text(statistics_lines(make_run(repeats=1, parameters={"logprobs": True})), 160)
    assert NO_PROBABILITY in text


def test_of_many_directions_those_that_change_most_are_shown(make_run: MakeRun) -> None:
    groups = {name: (0.1 * place, 0.1 * place + 0.3) for place, name in enumerate("abc", start=1)}
    found = statistics(read_run(make_run(rates={"zero": groups}, repeats=1, counterfactual=True)).answered)
    ((_, columns, note),) = list(probes(found))
    assert len(columns) == MOST_DIRECTIONS
    assert "2 more directions" in note


@pytest.mark.parametrize("said", ["yes", 1, None])
def test_a_record_of_rows_is_checked(make_run: MakeRun, said: object) -> None:
    """`no_rows` keeps people's records out: a record that says it in another way is refused, not ignored."""
    from fwc_llm.errors import FwcError

    folder = make_run(repeats=1)
    described = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    (folder / "run.json").write_text(json.dumps(described | {"no_rows": said}), encoding="utf-8")
    if said is None:
        assert read_run(folder).described["no_rows"] is None
        return
    with pytest.raises(FwcError, match="no_rows"):
        read_run(folder)
