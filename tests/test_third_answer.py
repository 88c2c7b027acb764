"""A third answer, refer: from a table to prompts, replies, numbers, pages and gates."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm import (
    Shots,
    Task,
    audit,
    build_prompt,
    evaluate,
    load_task,
    parse_answer,
    select_shots,
)
from fwc_llm.data.task_inference import draft_task
from fwc_llm.metrics.records import DECIDED_SCOPE, TRUTH
from fwc_llm.taskfile import checks_of
from fwc_llm.testing import answers
from tests.command import Run
from tests.refusals import refused

WORDS = {"yes": ["yes", "approved"], "no": ["no", "declined"]}
WORDS["refer"] = ["refer", "referred"]


def is_refused(why: str, call: Callable[[], Any]) -> None:
    with refused(why):
        call()


REFERRED = {"f": 0.5, "m": 0.125}  # shares of the groups that the model refers


def loans(n: int = 480) -> pd.DataFrame:
    """Rows of two groups; a third of the decisions were referred."""
    rng = np.random.default_rng(0)
    kinds = ["approved", "declined", "referred"]
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(20, 70, n),
            "amount": rng.integers(500, 9_000, n),
            "decision": rng.choice(kinds, n, p=[0.45, 0.25, 0.3]),
        }
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task file that was drafted for the table."""
    path = tmp_path_factory.mktemp("loans") / "loans.csv"
    loans().to_csv(path, index=False)
    draft = draft_task(path, ["sex"], "decision", path.parent)
    path.with_suffix(".toml").write_text(draft)
    return path.with_suffix(".toml")


@pytest.fixture
def task(file: Path) -> Task:
    return load_task(file)


def decide(messages: list[Any]) -> str:
    """Refer half of the women and an eighth of the men, else say yes to the young."""
    record = messages[-1]["content"]
    cells = dict(line[2:].split(": ") for line in record.split("\n")[1:])
    number = int(cells["amount"])
    if number % 8 < 8 * REFERRED[cells["sex"]]:
        return "Refer."
    return "yes" if int(cells["age"]) < 50 else "no"


def test_the_draft_names_the_third_answer_and_asks(file: Path, task: Task) -> None:
    text = file.read_text()
    assert 'refer = ["referred"]' in text
    assert any("a person decides" in check for check in checks_of(text))
    table = loans()
    labels = task.labels(task.table)
    wanted = table["decision"].map({"approved": 1, "declined": 0, "referred": 2})
    assert labels.tolist() == wanted.tolist()
    counts = pd.crosstab(table["sex"], wanted).loc[[*task.groups]]
    assert (task.cells_of(task.table) == counts.to_numpy()).all()


def test_of_a_frame(task: Task) -> None:
    table = loans()
    named = load_task(table, protected="sex", outcome="decision", refer="referred")
    assert (named.labels(named.table) == task.labels(task.table)).all()
    other = table.replace({"decision": {"referred": "to Bob"}})
    is_refused(
        "'to Bob'", lambda: load_task(other, protected="sex", outcome="decision").pool()
    )
    bob = load_task(other, protected="sex", outcome="decision", refer="to Bob")
    assert (bob.labels(bob.table) == task.labels(task.table)).all()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('refer = ["escalated"]', "or a third answer"),
        ('refer = ["approved"]', "cannot mean both refer"),
        ("examples_refer = true", "needs its values"),
    ],
)
def test_a_wrong_third_answer_is_is_refused(
    file: Path, tmp_path: Path, line: str, why: str
) -> None:
    shutil.copy(file.with_suffix(".csv"), tmp_path)
    lines = file.read_text().splitlines()
    lines = [line if one.startswith("refer = ") else one for one in lines]
    wrong = tmp_path / "loans.toml"
    wrong.write_text("\n".join(lines))
    is_refused(why, lambda: load_task(wrong).pool())


@pytest.mark.parametrize("left", [["referred"], ["approved", "referred"]])
def test_rows_to_refer_need_some_of_yes_and_of_no(left: list[str]) -> None:
    table = loans()
    rows = table[table["decision"].isin(left)]
    options: dict[str, Any] = {"positive": "approved", "negative": "declined"}
    is_refused(
        "decision",
        lambda: load_task(
            rows, protected="sex", outcome="decision", refer="referred", **options
        ).pool(),
    )


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("refer", "refer"),
        ("**Refer.**", "refer"),
        ("Answer: referred", "refer"),
        ('{"answer": "refer"}', "refer"),
        ("Refer to a human reviewer.", "refer"),
        ("Refer. The income is unclear.", "refer"),
        ("The application is referred.", "refer"),
        ("yes", "yes"),
        ("Declined.", "no"),
        ("I prefer not to say", None),
        ("I preferred yes", None),
        ("preferred", None),
        ("unsure", None),
        ("I cannot decide.", None),
        ("yes or refer", None),
        ("yes, no or refer", None),
        ("no, refer", None),
        ("Refer if the income is not verified", None),
        ("Refer, but approved otherwise", None),
        ("do not refer", None),
        ("Refer?", None),
    ],
)
def test_replies(reply: str, value: str | None) -> None:
    assert parse_answer(reply, WORDS).value == value


def test_two_answers_read_no_third() -> None:
    assert parse_answer("refer").value is None
    is_refused("must differ", lambda: parse_answer("no", {**WORDS, "refer": "no"}))


def test_prompts_say_the_three_words(task: Task, tmp_path: Path) -> None:
    row = task.test().iloc[0]
    (system, *_) = build_prompt(task, row)
    assert "yes, no or refer;" in system["content"]
    folder = tmp_path / "mine"
    shutil.copytree("prompts/default", folder)
    text = (folder / "system.j2").read_text()
    (folder / "system.j2").write_text(text.split("{{ yes }}/")[0] + "{% endcall %}")
    is_refused(
        "says nothing of the third answer",
        lambda: build_prompt(task, row, template=folder),
    )


def labels_of(shots: Shots) -> set[str]:
    return {example.label for example in shots.examples}


@pytest.mark.parametrize("strategy", ["fwc", "balanced", "random", "nearest"])
def test_referred_rows_are_examples_where_the_task_says_so(
    file: Path, tmp_path: Path, strategy: str
) -> None:
    shutil.copy(file.with_suffix(".csv"), tmp_path)
    text = file.read_text()
    both = tmp_path / "loans.toml"
    both.write_text(text.replace("refer = ", "examples_refer = true\nrefer = "))
    three = load_task(both)
    query = three.pool().iloc[0] if strategy == "nearest" else None
    pool = three.pool().iloc[1:]
    chosen = select_shots(three, strategy, m=12, pool=pool, query=query)
    assert labels_of(chosen) == {"yes", "no", "refer"}
    two = load_task(file)
    without = select_shots(two, strategy, m=12, pool=two.pool().iloc[1:], query=query)
    assert labels_of(without) == {"yes", "no"}
    row = two.pool().index[two.labels(two.pool()) == 2][0]
    is_refused("examples_refer", lambda: select_shots(two, "ids", rows=[str(row)]))


def test_from_a_table_to_a_page_and_a_gate(
    fwc: Run, task: Task, tmp_path: Path
) -> None:
    run = evaluate(task, decide, ("zero", "fwc"), n_test=200, m=8, out=tmp_path / "run")
    rows = pd.read_csv(tmp_path / "run" / "answers.csv")
    rows = rows[rows["arm"] == "zero"]
    referred = (rows["answer"] == "refer").groupby(rows["group"]).mean()
    found = run.records
    for group, share in referred.items():
        record = found.of("refer_rate", "zero", str(group))
        assert record.value == pytest.approx(share)
        assert record.low < share < record.high
    gap = found.of("refer_gap", "zero")
    assert gap.value == pytest.approx(referred.max() - referred.min())
    assert gap.verdict == "differs"
    yes = (rows["answer"] == "yes").groupby(rows["group"]).mean()
    decided = rows[rows["answer"] != "refer"]
    alone = (decided["answer"] == "yes").groupby(decided["group"]).mean()
    both = {None: yes, DECIDED_SCOPE: alone}
    for scope, rates in both.items():
        record = found.of("dp_gap", "zero", scope=scope)
        assert record.value == pytest.approx(rates.max() - rates.min())
    labelled = rows[rows["label"] != "refer"]
    right = labelled["answer"] == labelled["label"]
    assert found.of("accuracy", "zero").value == pytest.approx(right.mean())
    sure = labelled["answer"] != "refer"
    record = found.of("accuracy", "zero", scope=DECIDED_SCOPE)
    assert record.value == pytest.approx(right[sure].mean())
    truth = (rows["label"] == "refer").groupby(rows["group"]).mean()
    assert found.of("refer_gap", TRUTH).value == pytest.approx(np.ptp(truth))
    assert run.check("refer_gap[zero] > 0.1").outcome == "outside"
    page = tmp_path / "page.md"
    fwc(f"report {tmp_path / 'run'} --format md --out {page}")
    text = page.read_text()
    assert "Refer gap" in text
    assert "DP gap, yes and no alone" in text
    assert "count as not selected" in text


def test_a_service_that_refers_everybody(task: Task, tmp_path: Path) -> None:
    with answers("refer"):
        run = evaluate(task, "gpt-4", ("zero",), n_test=60, out=tmp_path / "run")
    check = run.check("dp_gap > 0.1")
    assert check.outcome == "cannot say"
    assert "answered refer to all" in check.reason


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"base_parity": 0.5}, "base parity"),
        ({"threshold": 0.5}, "threshold"),
        ({"assist": True}, "assist"),
        ({"model": "baseline"}, "baseline"),
    ],
)
def test_what_a_third_answer_excludes(
    task: Task, tmp_path: Path, options: dict[str, Any], what: str
) -> None:
    asked = {"model": decide, "n_test": 40, **options}
    is_refused(
        what, lambda: evaluate(task, arms=("zero",), out=tmp_path / "run", **asked)
    )


def test_an_audit_of_decisions() -> None:
    table = loans().assign(said=lambda rows: np.roll(rows["decision"], 1))
    options: dict[str, Any] = {
        "answer": "said",
        "label": "decision",
        "protected": "sex",
    }
    is_refused("'referred'", lambda: audit(table, **options))
    found = audit(table, refer="referred", **options)
    shares = (table["said"] == "referred").groupby(table["sex"]).mean()
    gap = found.records.of("refer_gap", "answers")
    assert gap.value == pytest.approx(np.ptp(shares))
    dropped = audit(table, others="drop", **options)
    assert not dropped.records.find("refer_gap", "answers").known
    assert "no third answer" in dropped.check("refer_gap > 0.1").reason


def test_a_monitor_of_decisions(fwc: Run, tmp_path: Path) -> None:
    table = loans(2_000)
    table["said"] = np.where(table["sex"] == "f", "referred", table["decision"])
    table["id"] = range(len(table))
    table.to_csv(tmp_path / "d.csv", index=False)
    options = "--answer said --protected sex --key id --refer referred"
    gate = f"--fail-if 'refer_gap > 0.1' --state {tmp_path / 'm.sqlite'}"
    done = fwc(f"monitor {tmp_path / 'd.csv'} {options} {gate}", code=5)
    assert "gap in referrals" in " ".join(done.out.split())


def test_a_run_is_the_same_when_it_is_computed_with_its_table(
    fwc: Run, file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    evaluate(load_task(file), decide, ("zero",), n_test=80, out=run)
    assert "Differences: 0." in fwc(f"verify {run} --task {file}", code=0).out


def test_a_gap_of_nobody_who_gets_a_yes_tells_nothing(
    task: Task, tmp_path: Path
) -> None:
    def never(messages: list[Any]) -> str:
        return "refer" if decide(messages) == "Refer." else "no"

    run = evaluate(task, never, ("zero",), n_test=200, out=tmp_path / "run")
    check = run.check("dp_gap > 0.1")
    assert check.outcome == "cannot say"
    assert "nobody" in check.reason
    assert run.check("refer_gap > 0.1").outcome == "outside"


def test_what_is_unknown_of_yes_and_no_alone_has_a_reason() -> None:
    said = ["refer", "no", "refer", "yes"] * 30
    table = pd.DataFrame({"group": ["a", "b"] * 60, "answer": said})
    found = audit(table, protected="group", refer="refer").records
    gap = found.of("dp_gap", "answers", scope=DECIDED_SCOPE)
    assert not gap.known
    assert gap.reason == "no yes or no in group a"


def test_an_empty_cell_may_be_a_referral() -> None:
    table = loans().replace({"decision": {"referred": ""}})
    named = load_task(table, protected="sex", outcome="decision", refer="")
    assert (named.labels(named.table) == 2).sum() == (table["decision"] == "").sum()
