"""Logs of Inspect as runs of ours: the same numbers, every kind of reply, and logs that nobody
can use.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fwc_llm import Result, evaluate
from fwc_llm.inspect import import_log
from fwc_llm.report.document import make_document
from tests.command import Run, read_json
from tests.inspect.designs import CENSUS, KEY, MOCKED, REASONS
from tests.refusals import refused

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("whole_census")]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The run of our own harness that `plain` is in Inspect."""
    out = tmp_path_factory.mktemp("ours") / "run"
    return evaluate("census", "surrogate", out=out, **CENSUS)


def read(path: Path) -> Any:
    from inspect_ai.log import read_eval_log

    return read_eval_log(str(path))


def test_the_numbers_are_those_of_our_own_harness(
    logs: Path, ours: Result, out: Path
) -> None:
    """In Inspect's own results, in the run that is made of its log, and in the report's
    statistics.
    """
    measured = read(logs / "plain.eval").results.scores[0].metrics
    for arm in ours.arms:
        for name in ("coverage", "accuracy", "dp_gap"):
            value = ours.records.of(name, arm).value
            assert measured[f"{arm}/{name}"].value == pytest.approx(value)
    theirs = import_log(logs / "plain.eval", out)
    for key in ours.data.keys() - {"model"}:
        assert theirs.data[key] == ours.data[key], key
    assert theirs.answers().equals(ours.answers())
    one, other = (
        make_document([result.folder])["runs"][0] for result in (ours, theirs)
    )
    for key in ("examples", "prompts", "simulated"):
        assert one[key] == other[key], key
    assert one["records"].plain() == other["records"].plain()
    assert other["about"]["model"] == "fwc/surrogate"


def test_stated_probabilities_are_scored_and_imported(
    logs: Path, ours: Result, tmp_path: Path
) -> None:
    stated = import_log(logs / "stated.eval", tmp_path / "run").answers()["p_yes"]
    assert (stated - ours.answers()["p_yes"]).abs().max() <= 0.00501
    first = read(logs / "stated.eval").samples[0].scores["decision"]
    assert first.metadata["p_yes"] in set(stated)


def test_report_and_compare_read_a_log(logs: Path, ours: Result, fwc: Run) -> None:
    done = fwc("report", logs / "plain.eval", "--format", "json", code=0)
    assert done.json["runs"][0]["folder"] == "plain"
    done = fwc("compare", ours.folder, logs / "plain.eval", "--json", code=0)
    records = done.json["comparisons"][0]["records"]
    assert {r["value"] for r in records if r["metric"] == "accuracy_difference"} == {
        0.0
    }


def test_every_kind_of_reply_is_read_as_it_is_from_a_service(
    logs: Path, out: Path
) -> None:
    result = import_log(logs / "epochs.eval", out)
    answers = result.answers()
    asked = len(answers)
    assert (
        asked == 8 * 2 * 2 * 2 * 2
    )  # rows, repeats, epochs, arms, and each row told as the other sex
    kinds = Counter(REASONS[i % len(MOCKED)] for i in range(asked))
    assert Counter(answers["reason"]) == kinds
    assert result.unanswered == kinds["error"]
    assert result.data["no_reply"][0]["reason"].startswith(
        "RuntimeError('the provider fell over')"
    )
    replies = asked - kinds["error"]
    each = {
        "prompt_tokens": 100,
        "completion_tokens": 1,
        "cached_tokens": 64,
        "cache_write_tokens": 0,
    }
    assert result.data["usage"] == {
        name: tokens * replies for name, tokens in each.items()
    }


def test_epochs_are_repeats_of_the_same_rows_and_examples(
    logs: Path, out: Path
) -> None:
    result = import_log(logs / "epochs.eval", out)
    rows = result.answers().groupby("repeat")["row"].agg(frozenset)
    assert rows[0] == rows[1] != rows[2] == rows[3]
    (run,) = make_document([result.folder])["runs"]
    repeats = (
        "in 2 repeats with rows of their own (seeds from 0), every question 2 times"
    )
    assert repeats in run["paragraph"]
    balanced = run["examples"]["balanced"]
    assert [one["repeat"] for one in balanced] == [0, 1, 2, 3]
    assert balanced[0]["examples"] == balanced[1]["examples"] != balanced[2]["examples"]
    assert any("2 draws of examples" in note for note in run["statistics"].notes)
    found = read(logs / "epochs.eval").results.scores[0].metrics
    for arm in result.arms:
        value = result.records.of("accuracy", arm).value
        assert found[f"{arm}/accuracy"].value == pytest.approx(value, abs=0.02)


def test_a_log_that_an_error_ended_is_refused(logs: Path, out: Path) -> None:
    with refused(r"of 16 questions \(status: error\): complete"):
        import_log(logs / "stopped.eval", out)


def test_our_parameters_are_sent_unless_the_user_sets_others(
    logs: Path, tmp_path: Path
) -> None:
    for name, temperature in (("small.json", 0), ("warm.eval", 0.7)):
        (first, *_) = [
            sample for sample in read(logs / name).samples if sample.output.metadata
        ]
        assert first.output.metadata == {"temperature": temperature, "max_tokens": 20}
        result = import_log(logs / name, tmp_path / name)
        parameters = read_json(result.folder / "run.json")["parameters"]
        assert parameters == {"temperature": temperature, "max_tokens": 20}
        for path in result.folder.rglob(
            "*"
        ):  # of a header that Inspect keeps in its log
            assert not path.is_file() or KEY.encode() not in path.read_bytes()


def test_a_log_that_is_not_there_or_named_twice_is_refused(
    logs: Path, fwc: Run, tmp_path: Path
) -> None:
    assert fwc("report", tmp_path / "gone.eval").line.endswith(
        f"there is no log {tmp_path / 'gone.eval'}"
    )
    assert (
        "plain.eval is named twice"
        in fwc("report", logs / "plain.eval", logs / "plain.eval").line
    )


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "cut.eval": lambda whole: whole[: len(whole) // 2],
    "empty.eval": lambda whole: b"",
    "garbled.eval": lambda whole: whole[:2000] + b"\0" * 500 + whole[2500:],
    "no-zip.eval": lambda whole: b"PK, or not",
    "text.json": lambda whole: b"not JSON",
    "foreign.json": lambda whole: b'{"version": 2, "eval": {"task": 3}}',
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_log_is_named(
    logs: Path, name: str, tmp_path: Path, fwc: Run
) -> None:
    (tmp_path / name).write_bytes(DAMAGED[name]((logs / "plain.eval").read_bytes()))
    done = fwc("report", tmp_path / name, code=2)
    assert "is not a log of Inspect" in done.line
    assert str(tmp_path) in done.line
    assert "Traceback" not in done.err


def test_a_log_of_another_task_is_audited_by_a_group_in_its_metadata(
    logs: Path, fwc: Run
) -> None:
    """As often "Yes" of both: `report` says how, and `audit` does it."""
    refused = fwc("report", logs / "foreign.eval", code=2)
    assert "with --answer decision, --label target" in refused.line
    done = fwc(
        f"audit {logs / 'foreign.eval'} --protected sex --answer decision --json",
        code=0,
    )
    found = done.json["statistics"]["sex"]
    assert sum(group["n"] for group in found["groups"]) == 8 == found["arms"][0]["n"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda log: log["eval"]["metadata"]["fwc_llm"].update(
                format="fwc-llm-inspect/9"
            ),
            "format",
        ),
        (
            lambda log: log["eval"]["metadata"]["fwc_llm"].update(run=None),
            "damaged: run",
        ),
        (
            lambda log: log["eval"]["metadata"]["fwc_llm"]["run"].update(arms="x"),
            "arms",
        ),
        (
            lambda log: log["samples"][0]["metadata"].update(label="perhaps"),
            "no question of a fwc-llm task",
        ),
        (
            lambda log: log["samples"][0]["metadata"].update(arm="nobody"),
            "no question of a fwc-llm task",
        ),
        (lambda log: log["samples"].append(log["samples"][0]), "two answers|answers"),
        (lambda log: log.update(samples=[]), "holds 0 of 16 questions"),
    ],
)
def test_a_log_that_somebody_edited_is_named(
    logs: Path, change: Any, words: str, tmp_path: Path
) -> None:
    content = read_json(logs / "small.json")
    change(content)
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(content))
    with refused(words):
        make_document([import_log(path, tmp_path / "run").folder])
