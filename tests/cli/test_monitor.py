"""`monitor`: decisions that keep coming, with a drift on the fourth day that the mean of all
hides.
"""

import hashlib
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fwc_llm.cli import console
from tests.command import Run

OPTIONS = "--answer approved --protected sex --key id --time when"
GATE = "--fail-if 'dp_gap > 0.1' --undecided pass"


def day(number: int, rows: int = 1000, gap: float | None = None) -> pd.DataFrame:
    rng = np.random.default_rng(number)
    sex = rng.choice(["f", "m"], rows)
    if gap is None:
        gap = 0.04 if number < 4 else 0.3
    yes = rng.random(rows) < np.where(sex == "m", 0.5 + gap / 2, 0.5 - gap / 2)
    ids = [f"{number}-{row}" for row in range(rows)]
    columns = {"id": ids, "sex": sex, "approved": np.where(yes, "yes", "no")}
    return pd.DataFrame(columns).assign(when=f"2026-11-{number:02}")


def line(folder: Path, *more: object) -> str:
    usual = {"--state": folder / "state.db", "--period": "day"}
    others = " ".join(f"{name} {of}" for name, of in usual.items() if name not in more)
    return f"monitor {folder / 'decisions.csv'} {OPTIONS} {GATE} {others}"


@pytest.fixture
def watch(fwc: Run, tmp_path: Path) -> Run:
    """Monitor a table, which goes on where the last one ended."""

    def watch(frame: pd.DataFrame, *more: object, code: int | None = None) -> Any:
        frame.to_csv(tmp_path / "decisions.csv", index=False)
        return fwc(line(tmp_path, *more), *more, code=code)

    return watch


def start(folder: Path, *more: object, **options: Any) -> subprocess.Popen[str]:
    """Start the command in a process of its own."""
    words = [*shlex.split(line(folder, *more)), *map(str, more)]
    command = [sys.executable, "-m", "fwc_llm", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def kept(folder: Path) -> int:
    """The decisions in a state that is whole."""
    with sqlite3.connect(folder / "state.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (decisions,) = database.execute("SELECT count(*) FROM decisions").fetchone()
    return int(decisions)


@pytest.fixture
def unchanged(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Begin with what is kept; afterwards the state is what it was."""
    path = tmp_path / "state.db"
    before: list[bytes] = []
    yield lambda: before.append(path.read_bytes())
    assert path.read_bytes() == before[-1]


def outcome(result: Any) -> str:
    (gate,) = result.json["gates"]
    return str(gate["outcome"])


def test_a_drift_is_outside_until_a_new_start_though_the_mean_hides_it(
    watch: Run, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    outcomes = []
    frame = pd.DataFrame()
    for number in range(1, 7):
        frame = pd.concat([frame, day(number, 3000, 0.35 if number == 4 else 0.04)])
        result = watch(frame.sample(frac=1, random_state=0), "--json", "--report", page)
        outcomes.append((outcome(result), result.code))
    assert outcomes[2:] == [("within", 0), *[("outside", 5)] * 3]
    document = result.json
    assert document["pooled"]["dp_gap > 0.1"]["value"] < 0.1
    gaps = [entry["dp_gap > 0.1"]["value"] > 0.2 for entry in document["history"]]
    assert gaps == [False, False, False, True, False, False]
    (gate,) = document["gates"]
    assert re.match("in 2026-11-04, yes for .* a gap of 3[0-9]", gate["reason"])
    mean = "; in .* since .*, averaged over periods, .*a gap of 9"
    assert re.search(mean, gate["reason"])
    assert gate["low"] > 0.1
    text = page.read_text()
    for word, times in (("outside", 1), ("cannot say", 5)):
        assert text.count(f'"number">{word}</span>') == times
    shown, _, made = text.partition("Record of this call")
    assert "dp_gap" not in shown
    digest = hashlib.sha256((tmp_path / "decisions.csv").read_bytes()).hexdigest()
    assert digest in made
    assert "fwc-llm monitor " in made
    narrow = "several decisions of one person make these intervals too narrow"
    assert narrow in text
    # nothing new, and only a part of the file
    assert watch(day(5, 3000, 0.04), "--json").json == document
    assert b"4-17" not in (tmp_path / "state.db").read_bytes(), "keys are hashed"
    people = day(6, 3000, 0.04).assign(person=1)
    anew = ("--since", "2026-11-05", "--report", page)
    repaired = watch(people, *anew, code=0)
    for said in (repaired.out, page.read_text()):
        assert "Call 8 started anew with 2026-11-05" in said
    assert "is not used: several decisions of one person make" in repaired.err
    later = watch(day(7, 3000, 0.04), "--json", code=0).json
    assert later["since"] == [{"period": "2026-11-05", "call": 8}]
    judged = ["dp_gap > 0.1" in entry for entry in later["history"]]
    assert judged == [False] * 4 + [True] * 3


def test_few_decisions_have_no_metric_yet(watch: Run) -> None:
    few = watch(day(1, 20), code=0).words
    assert (
        "in 20 decisions since 2026-11-01, gap unknown (under 30 decisions of two groups in the "
        "same periods); wait for more decisions" in few
    )


def test_a_period_shows_the_groups_that_its_gap_compares(
    watch: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one table of 80 columns, the outcome first."""
    names = {"f": "Female from abroad", "m": "Male from abroad"}
    frame = day(1).replace({"sex": names})
    frame.loc[:9, ["sex", "approved"]] = ["x", "no"]
    monkeypatch.setattr(console.out, "width", 80)
    result = watch(frame)
    assert "fewer than 30 decisions: x (10 decided)." in result.err
    shown = result.out
    above, table = shown.split("Gap: at most 10 points\n")
    lines = [*above.splitlines(), *table.splitlines()[:4]]
    assert max(map(len, lines)) <= 80
    assert lines[-4].split() == ["Period", "Limits", "Yes,", "%", "Gap", "Decisions"]
    assert re.search(r" Female from abroad \d\d\.\d,", lines[-2])
    assert re.search(r" Male from abroad \d\d\.\d ", lines[-1])
    assert re.match(
        "(Within|Cannot).*% of Female from abroad and ", " ".join(above.split())
    )


def test_neither_the_order_of_rows_nor_that_of_calls_changes_a_verdict(
    fwc: Run, tmp_path: Path
) -> None:
    """Nor does a mix of groups that changes between days of equal treatment make a gap."""
    rng = np.random.default_rng(5)
    days = []
    for number, (share, rate) in enumerate([(0.9, 0.2), (0.5, 0.5), (0.1, 0.8)], 1):
        sex = np.where(rng.random(3000) < share, "f", "m")
        said = np.where(rng.random(3000) < rate, "yes", "no")
        days.append(day(number, 3000).assign(sex=sex, approved=said))
    whole = pd.concat(days)
    rates = (whole["approved"] == "yes").groupby(whole["sex"]).mean()
    assert rates["m"] - rates["f"] > 0.3
    found = []
    for name, frame in (
        ("sorted", whole.sort_values(["sex", "approved"])),
        ("mixed", whole.sample(frac=1, random_state=1)),
    ):
        folder = tmp_path / name
        folder.mkdir()
        for part in (frame[:4500], frame[4500:]):
            part.to_csv(folder / "decisions.csv", index=False)
            result = fwc(line(folder), "--json")
        assert outcome(result) == "within"
        found.append(result.json)
    assert found[0]["pooled"] == found[1]["pooled"]
    told = re.search(
        ", averaged over periods, yes for (.+) % of . and (.+) % of ., a gap of (.+?) ",
        found[0]["gates"][0]["reason"],
    )
    assert told is not None
    low, high, gap = map(float, told.groups())
    assert high - low == pytest.approx(gap, abs=0.11)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda frame: frame.assign(approved="no"),
            "the row '1-.*' was seen before and has changed",
        ),
        (
            lambda frame: pd.concat([frame, frame.tail(1)]),
            "the row '1-199' comes twice",
        ),
        (
            lambda frame: frame.assign(id=[*frame["id"][2:], "7", "7.0"]),
            "the row '7' comes twice",
        ),
        (lambda frame: frame.rename(columns={"sex": "gender"}), "no column 'sex'"),
        (
            lambda frame: frame.assign(when="19.03.2025"),
            r"'19.03.2025' is no date.*pandas.to_datetime\(table\['when'\], format='%d.%m.%Y'\)",
        ),
        (lambda frame: frame.assign(when="nan"), "no value in column when"),
        (lambda frame: frame.assign(when="2026-11-02"), "has changed"),
        (
            lambda frame: day(2).assign(sex=[f"g{row % 200}" for row in range(1000)]),
            "more than 100",
        ),
        (lambda frame: day(2).assign(approved="maybe"), "say what"),
        (lambda frame: day(2).assign(when="1753574"), "'1753574' is no date in ISO"),
    ],
)
def test_bad_input_leaves_the_state_as_it_was(
    watch: Run, unchanged: Any, change: Any, why: str
) -> None:
    watch(day(1, 200), code=0)
    unchanged()
    assert re.search(why, watch(change(day(1, 200)), code=2).line)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("--fail-if 'dp_gap > 0.2'", "with --fail-if 'dp_gap > 0.1': repeat it"),
        ("--period week --missing drop", "with --missing refuse, --period day: repeat"),
        ("--negative ''", "begun with no --negative: repeat it"),
        ("--report {}/none/page.html", "its folder"),
        ("--report {}/./state.db", "different"),
        ("--junit {}/./state.db", "different"),
        ("--report {}/./decisions.csv", "different"),
    ],
)
def test_other_settings_and_places_leave_the_state_as_it_was(
    watch: Run, tmp_path: Path, unchanged: Any, more: str, why: str
) -> None:
    """Nor does a page or a JUnit file ever take the place of the state, or of the decisions."""
    watch(day(1, 200), code=0)
    unchanged()
    words = shlex.split(more.format(tmp_path))
    assert why in watch(day(2, 200), *words, code=2).line
    other = ("--state", tmp_path / "t.db")
    watch(day(1, 200), "--negative", "", *other, code=0)
    assert "begun with --negative ''" in watch(day(2, 200), *other, code=2).line


def test_what_cannot_be_monitored_is_refused(watch: Run) -> None:
    for condition, why in (
        ("label_gap > 0.1", "name one of accuracy, dp_gap"),
        ("dp_gap < 0.1", "cannot be monitored"),
        ("auc_gap > 0.1", "cannot be monitored"),
        ("dp_gap[a] - dp_gap[b] > 0", "cannot be monitored"),
        ("dp_gap[f] > 0.1", "cannot be monitored"),
        ("coverage > 0.8", "cannot be monitored"),
        ("accuracy < 0.5", "--label"),
    ):
        assert why in watch(day(1, 200), "--fail-if", condition, code=2).line
    perhaps = day(1, 200).assign(approved="perhaps")
    assert "approved has 1 value:" in watch(perhaps, code=2).line


def test_calls_of_few_decisions_in_other_words(watch: Run) -> None:
    """Calls of one group, of one value and of none; values keep the meaning that they had."""
    frame = day(1, 300).replace({"approved": {"yes": "granted", "no": "refused"}})
    words = "--positive yes,granted --negative no,refused --period call --json"
    cells = frame.groupby(["sex", "approved"])
    refused = day(2, 9).assign(approved="refused")
    singles = [refused[number : number + 1] for number in range(9)]
    for part in (*(cell[:3] for _, cell in cells), *singles):
        watch(part, *shlex.split(words), code=0)
    history = watch(day(2, 0), *shlex.split(words)).json["history"]
    assert [entry["period"] for entry in history] == [f"call {n}" for n in range(1, 14)]
    assert sum(np.sum([*entry["counts"].values()]) for entry in history) == 21
    other = shlex.split("--positive refused --negative granted --period call")
    granted = day(3, 9).assign(approved="granted")
    assert "--positive yes,granted" in watch(granted, *other, code=2).line


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (["1", "2"], ("--positive-label", "2")),
        (["1", "2"], ("--positive", "granted,2")),
        (["paid", "defaulted"], ("--positive", "granted,paid")),
        (["good", "bad"], ("--positive", "granted")),
        (["1", "0"], ()),
    ],
)
def test_answers_and_labels_have_a_meaning_each_in_every_file(
    watch: Run, labels: list[str], options: tuple[str, ...]
) -> None:
    yes = labels[1] if "2" in labels else labels[0]
    right = 0
    for number in (1, 2, 3):
        frame = day(number, 300).replace(
            {"approved": {"yes": "granted", "no": "denied"}}
        )
        frame["was"] = [labels[row % 2] for row in range(300)]
        frame = frame[frame["was"] == labels[1]] if number == 3 else frame
        right += int(((frame["approved"] == "granted") == (frame["was"] == yes)).sum())
        more = ("--label", "was", "--fail-if", "accuracy < 0.1", "--json", *options)
        document = watch(frame, *more, code=0).json
    cells = np.sum(
        [[*of["counts"].values()] for of in document["history"]], axis=(0, 1)
    )
    assert (cells[0][0] + cells[1][1], cells.sum()) == (right, 750)


def test_unknown_is_counted_and_in_no_gap(watch: Run) -> None:
    frame = day(1, 3000, 0.0)
    frame.loc[frame.index % 3 == 0, ["sex", "approved"]] = ["keine Angabe", "yes"]
    counted = watch(frame, "--json", code=0)
    document = counted.json
    assert document["gates"][0]["outcome"] == "within"
    assert document["pooled"]["dp_gap > 0.1"]["value"] < 0.1
    assert np.sum(document["history"][0]["counts"]["unknown"]) == 1000
    assert "decisions: unknown (1,000 decided)." in counted.err


@pytest.mark.parametrize(
    ("silent", "lost", "remedy"),
    [
        ("f", 380, "fewer missing answers, or more decisions, would settle it"),
        ("f", 1000, "only fewer missing answers would settle it"),
        ("keine Angabe", 200, ""),
    ],
)
def test_decisions_without_an_answer_may_be_any_as_in_an_audit(
    watch: Run, fwc: Run, tmp_path: Path, silent: str, lost: int, remedy: str
) -> None:
    frame = day(1, 6000, 0.0)
    frame.loc[5000:, "sex"] = "keine Angabe"
    assert "no answer that was read" not in watch(frame.head(3000), code=0).err
    rest = frame[(frame.index >= 3000) & (frame["sex"] == silent)].index[:lost]
    frame.loc[rest, "approved"] = ""
    seen = watch(frame, "--json")
    assert f"{len(rest):,} of 6,000 decisions have no answer that was read" in seen.err
    audit = f"audit {tmp_path / 'decisions.csv'} --answer approved --protected sex"
    audited = fwc(f"{audit} --fail-if 'dp_gap > 0.1' --undecided pass --json")
    gates = [told.json["gates"][0] for told in (seen, audited)]
    outcomes = [gate["outcome"] for gate in gates]
    assert outcomes == ["cannot say" if remedy else "within"] * 2
    assert gates[0]["reason"].endswith(remedy)


def test_groups_in_different_periods_are_told_so_and_those_without_answers_named(
    watch: Run, tmp_path: Path
) -> None:
    frame = day(1)
    frame["when"] = np.where(frame["sex"] == "f", "2026-11-01", "2026-11-02")
    told = watch(frame, code=0).words
    assert "or judge longer periods in another state." in told
    whole = ("--state", tmp_path / "whole.db", "--period", "month")
    frame.loc[frame["sex"] == "m", "approved"] = ""
    told = watch(frame, *whole, "--fail-if", "coverage_gap > 0.02", code=5).words
    answers = "an answer for 0.0 % of m and 100.0 % of f,"
    place = "in 1,000 decisions since 2026-11,"
    assert told.startswith(f"Outside the limits: {place} {answers}")
    assert "unknown (under 30 answers of m were read)" in told


def test_the_next_step_is_a_command_that_works(
    watch: Run, fwc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, again = watch(day(4), code=5).out.split("Next: ")
    step = again.splitlines()[-1].strip()
    assert fwc(step.removeprefix("fwc-llm "), code=5).out.startswith(first)
    assert (tmp_path / "decisions-monitor.html").is_file()


def test_a_column_called_label_is_read_only_where_it_is_named(
    watch: Run, tmp_path: Path
) -> None:
    """As the help says; and a group with labels for one answer alone is refused."""
    frame = day(1, 2000).assign(label=day(2, 2000)["approved"])
    accuracy = "--fail-if", "accuracy < 0.1"
    assert "name their column with --label" in watch(frame, *accuracy, code=2).line
    watch(frame, *accuracy, "--label", "label", code=0)
    frame.loc[(frame["sex"] == "f") & (frame["approved"] == "no"), "label"] = ""
    other = "--label", "label", "--missing", "drop", "--state", tmp_path / "other.db"
    refused = watch(frame, *accuracy, *other, code=2).line
    assert "all rows of f with a value in column label have the same answer" in refused


def test_where_nobody_gets_a_yes_more_decisions_are_no_remedy(watch: Run) -> None:
    nobody = day(1).assign(approved="no")
    both = "--positive", "yes", "--negative", "no"
    told = watch(nobody, "--fail-if", "dp_ratio < 0.8", *both).words
    assert "ratio unknown (nobody got a yes)" in told
    assert "find out why: there is no ratio until somebody gets a yes" in told


def test_equalized_odds_beside_one_of_its_gaps_is_explained(watch: Run) -> None:
    frame = day(1, 2000, 0.2).assign(was=day(2, 2000)["approved"])
    gates = ["--fail-if", "tpr_gap > 0.05", "--fail-if", "eo_gap > 0.2"]
    seen = watch(frame, "--label", "was", *gates)
    assert "equalized odds) is the larger of" in seen.err
    told = seen.words
    assert "a gap is shown, but not whether it keeps to the limit: wait" in told


def test_times_have_zones_and_come_late(watch: Run) -> None:
    zones = [
        "2026-03-31T23:30:00-05:00",
        "2026-04-01T03:00Z",
        "2026-02",
        "2026-04-01 05:00:00.5+02:00",
    ]
    options = ("--period", "month", "--json")
    watch(day(1, 4).assign(when=zones), *options)
    late = watch(day(2, 2).assign(when=["2026-01-01", "2026-05-01"]), *options).json
    assert [
        (entry["period"], np.sum([*entry["counts"].values()]))
        for entry in late["history"]
    ] == [(f"2026-0{month}", 1 + (month == 4)) for month in range(1, 6)]


@pytest.mark.parametrize(
    ("every", "name"),
    [("week", "2026-10-26/2026-11-01"), ("quarter", "2026Q4"), ("year", "2026")],
)
def test_periods_have_names(watch: Run, every: str, name: str) -> None:
    """A hyphen more is the same name."""
    document = watch(day(1, 50), "--period", every, "--json").json
    assert [entry["period"] for entry in document["history"]] == [name]
    refused = watch(day(1, 50), "--period", every, "--since", "2026-11", code=2).line
    assert (
        f"no decision is of this {every}; write it as the last one, {name}" in refused
    )
    written = name.replace("Q", "-Q")
    assert watch(day(1, 50), "--period", every, "--since", written, "--json").code == 0


def test_wide_input_is_taken(watch: Run) -> None:
    """A key of 10,000 characters, a third level of the protected column."""
    many = day(1)
    many.loc[0, "id"] = "x" * 10_000
    watch(many, code=0)
    changed = watch(many.assign(approved="no"), code=2)
    assert len(changed.line) < 500
    third = watch(day(2, 50).assign(sex="d"), "--json")
    assert "groups not seen before" in third.err
    assert set(third.json["history"][0]["counts"]) == {"f", "m", "d"}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def changed(statements: str) -> Any:
    def change(path: Path) -> None:
        with sqlite3.connect(path, isolation_level=None) as database:
            database.executescript(statements)

    return change


FIRST = "(SELECT min(key) FROM decisions WHERE cell = 1)"
OTHER = "(SELECT min(key) FROM decisions WHERE cell = 2)"
EDITS = [
    f"DELETE FROM decisions WHERE key = {FIRST}; UPDATE cells SET n = n - 1 WHERE id = 1",
    "INSERT INTO decisions VALUES (0, 1); UPDATE cells SET n = n + 1 WHERE id = 1",
    f"UPDATE decisions SET key = key + 1 WHERE key = {FIRST}",
    f"UPDATE decisions SET cell = 3 - cell WHERE key IN ({FIRST}, {OTHER})",
    "INSERT INTO cells (period, people, label, answer) VALUES ('2026-11-03', 'f', 0, 1)",
    "UPDATE cells SET label = 1 WHERE id = 1",
    "UPDATE cells SET n = n + 1 WHERE id = 1",
    "DELETE FROM cells WHERE id = 1; DELETE FROM decisions WHERE cell = 1",
    """UPDATE summary SET json = replace(json, '"since": []',
        '"since": [{"period": "2026-11-04", "call": 1}]')""",
    'UPDATE summary SET json = replace(json, \'"salt": "\', \'"salt": "0\')',
    "UPDATE summary SET json = replace(json, 'gap > 0.1', 'gap > 0.9')",
    "UPDATE summary SET sha256 = ''",
    "INSERT INTO summary SELECT * FROM summary",
    "DELETE FROM summary",
]


EDITED = (
    "/state.db is not as `fwc-llm monitor` wrote it: .* edited"
    ".*begin a new file with --state and all decisions$"
)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (cut, "state.db"),
        (lambda path: path.write_text("not a state"), "cannot use the state"),
        (
            lambda path: path.unlink() or changed("CREATE TABLE t (x)")(path),
            "is not a file of",
        ),
        (
            changed(
                "CREATE TRIGGER t AFTER INSERT ON cells BEGIN DELETE FROM cells; END"
            ),
            "is not a file of",
        ),
        *((changed(statements), EDITED) for statements in EDITS),
    ],
)
def test_a_state_that_is_damaged_foreign_or_edited_is_refused(
    watch: Run, tmp_path: Path, unchanged: Any, damage: Any, why: str
) -> None:
    watch(day(4), code=5)
    damage(tmp_path / "state.db")
    unchanged()
    assert re.search(why, watch(day(5), code=2).line)


def test_calls_at_once_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    folders = []
    for number in range(3):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        pd.concat([day(number + 1, 300), day(number + 2, 300)]).to_csv(
            folder / "decisions.csv", index=False
        )
        folders.append(folder)
    shared = ("--state", tmp_path / "state.db")
    ends = [
        process.communicate()
        for process in [start(folder, *shared) for folder in folders]
    ]
    assert kept(tmp_path) == 1200, ends


def test_a_call_that_is_killed_leaves_all_or_nothing(
    tmp_path: Path, watch: Run
) -> None:
    watch(day(1, 100), code=0)
    pd.concat([day(number, 4000) for number in range(2, 8)]).to_csv(
        tmp_path / "decisions.csv", index=False
    )
    process = start(tmp_path)
    journal = tmp_path / "state.db-journal"
    while not journal.exists() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert kept(tmp_path) in (100, 24_100)
    start(tmp_path).communicate()
    assert kept(tmp_path) == 24_100
