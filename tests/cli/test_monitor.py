"""`monitor`: decisions that keep coming, with a drift on the fourth day that the mean of all hides."""

import json
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.command import Run

OPTIONS = ("--answer", "approved", "--protected", "sex", "--key", "id", "--time", "when", "--by", "version")


def day(number: int, rows: int = 1000, gap: float | None = None) -> pd.DataFrame:
    rng = np.random.default_rng(number)
    sex, gap = rng.choice(["f", "m"], rows), (0.04 if number < 4 else 0.3) if gap is None else gap
    yes = rng.random(rows) < np.where(sex == "m", 0.5 + gap / 2, 0.5 - gap / 2)
    ids, version = [f"{number}-{row}" for row in range(rows)], "a" if number < 4 else "<b>"
    columns = {"id": ids, "sex": sex, "approved": np.where(yes, "yes", "no")}
    return pd.DataFrame(columns).assign(when=f"2026-11-{number:02}", version=version)


def words(folder: Path, *more: object) -> tuple[object, ...]:
    state, gate = folder / "state.db", ("--fail-if", "dp > 0.1", "--undecided", "pass")
    return ("monitor", folder / "decisions.csv", *OPTIONS, "--state", state, *gate, *more)


@pytest.fixture
def watch(fwc: Run, tmp_path: Path) -> Run:
    """Monitor a table, which goes on where the last one ended."""

    def watch(frame: pd.DataFrame, *more: object, code: int | None = None) -> Any:
        frame.to_csv(tmp_path / "decisions.csv", index=False)
        return fwc(*words(tmp_path, *more), code=code)

    return watch


def start(folder: Path, *more: object, **options: Any) -> subprocess.Popen[str]:
    """Start the command in a process of its own."""
    command = [sys.executable, "-m", "fwc_llm", *map(str, words(folder, *more))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def kept(folder: Path) -> tuple[int, int]:
    """The decisions of a state, and how many were counted."""
    with sqlite3.connect(folder / "state.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return database.execute(
            "SELECT (SELECT count(cell) FROM decisions), (SELECT sum(n) FROM counts)"
        ).fetchone()


def test_a_drift_is_found_that_the_mean_of_all_hides(watch: Run, tmp_path: Path) -> None:
    page, more = tmp_path / "page.html", ("--period", "day", "--title", "<i>Loans</i>", "--report")
    frame = pd.DataFrame()
    for number in range(1, 6):
        frame = pd.concat([frame, day(number)])
        result = watch(
            frame.sample(frac=1, random_state=0), "--json", *more, page, code=5 if number == 4 else 0
        )
        document = json.loads(result.out)
        outcomes = [gate["outcome"] for gate in document["gates"]]
        assert outcomes == (
            ["failed"] if number == 4 else ["passed"] if number == 5 else [*outcomes[:1], "passed"]
        )
    assert [(entry["period"], entry["new"]) for entry in document["history"]] == [
        (f"2026-11-0{number}", 1000) for number in range(1, 6)
    ]
    (alarm,) = document["alarms"]
    assert alarm["from"] in {"2026-11-03", "2026-11-04"}  # an estimate
    assert (alarm["to"], alarm["groups"]) == ("2026-11-05", ["m", "f"])
    high, low = (alarm["inside"][place + 1] / alarm["inside"][place] for place in (0, 2))
    assert 0.2 < high - low < 0.4
    assert alarm["before"][0] + alarm["before"][2] == pytest.approx(3000, abs=400)
    assert b"1-17" not in (tmp_path / "state.db").read_bytes()
    text = page.read_text()
    assert "By version" in text
    assert f"ALARM since {alarm['from']}" in text
    assert not re.search("<b>|<i>Loans", text)
    assert text.count('<svg class="plot"') == 20  # two groups, each day and all so far
    assert text.count('class="mark">ALARM') in {2, 3}
    again = json.loads(watch(day(5), "--json", *more[:2]).out)  # nothing new, and only a part of the file
    assert (again["history"], again["counts"]) == (document["history"], document["counts"])


def test_few_decisions_have_no_metric_yet_and_an_alarm_is_told_once(watch: Run, tmp_path: Path) -> None:
    few = watch(day(1, 20), code=0).out
    assert "dp > 0.1: unknown of 20 decisions so far: wait until two groups have 30 rows each" in few
    page = tmp_path / "page.html"
    out = watch(day(2, 2000, 0.5), "--report", page, code=5).out
    assert (out.count("ALARM since"), page.read_text().count("ALARM since")) == (1, 1)


def test_an_alarm_that_goes_on_fails_once_and_a_new_one_again(watch: Run) -> None:
    gaps = [0.0, 0.35, 0.35, 0.35, 0.0, 0.0, 0.0, 0.0, 0.35, 0.35]
    codes = [watch(day(n, 2000, gap), "--run-length", 1000).code for n, gap in enumerate(gaps, 1)]
    assert [n for n, code in enumerate(codes, 1) if code] == [2, 9]
    more = ("--run-length", 1000, "--acknowledge", "the new form")
    out = watch(day(10, 2000, 0.35), *more, code=0).out
    assert out.count("acknowledged: the new form") == 2  # each alarm once
    assert "this alarm continues" in out
    assert "--acknowledge has no effect" in watch(day(10, 2000, 0.35), *more, code=0).err
    window = ("--run-length", 1000, "--window")
    assert "beyond the bound" in watch(day(10, 2000, 0.35), *window, "1", code=5).out
    watch(day(10, 2000, 0.35), *window, "2026-11", code=5)
    assert "is unknown" in watch(day(10, 2000, 0.35), *window, "2025-01", code=2).line


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda frame: frame.assign(approved="no"), "the row '1-.*' was seen before and has changed"),
        (lambda frame: pd.concat([frame, frame.tail(1)]), "two rows with id '1-199'"),
        (lambda frame: frame.assign(id=[*frame["id"][2:], "7", "7.0"]), "two rows with id '7'"),
        (lambda frame: frame.rename(columns={"sex": "gender"}), "no column 'sex'"),
        (lambda frame: frame.assign(when="soon"), "ISO 8601"),
        (lambda frame: frame.assign(when="nan"), "no value in column when"),
        (lambda frame: frame.assign(when="2026-11-02"), "has changed"),
        (lambda frame: day(2).assign(sex=[f"g{row % 200}" for row in range(1000)]), "more than 100"),
        (lambda frame: day(2).assign(approved="maybe"), "Say what"),
    ],
)
def test_bad_input_leaves_the_state_as_it_was(watch: Run, tmp_path: Path, change: Any, why: str) -> None:
    watch(day(1, 200), code=0)
    before = (tmp_path / "state.db").read_bytes()
    assert re.search(why, watch(change(day(1, 200)), code=2).line)
    assert (tmp_path / "state.db").read_bytes() == before


def test_other_settings_and_places_leave_the_state_as_it_was(watch: Run, tmp_path: Path) -> None:
    """Nor does a page or a JUnit file ever take the place of the state, or of the decisions."""
    watch(day(1, 200), code=0)
    before = (tmp_path / "state.db").read_bytes()
    for *more, why in (
        ("--fail-if", "dp > 0.2", "with --fail-if dp > 0.1, but"),
        ("--run-length", 10, "--run-length 100000, but"),
        ("--report", tmp_path / "none" / "page.html", "its folder"),
        ("--report", tmp_path / "." / "state.db", "different"),
        ("--junit", tmp_path / "." / "state.db", "different"),
        ("--report", tmp_path / "." / "decisions.csv", "different"),
    ):
        assert str(why) in watch(day(2, 200), *more, code=2).line
        assert (tmp_path / "state.db").read_bytes() == before


def test_what_cannot_be_monitored_is_refused(watch: Run) -> None:
    for text in ("dp < 0.1", "auc > 0.1", "dp[a] - dp[b] > 0", "dp[f] > 0.1", "coverage > 0.8"):
        assert "cannot be monitored" in watch(day(1, 200), "--fail-if", text, code=2).line
    assert "--label" in watch(day(1, 200), "--fail-if", "accuracy < 0.5", code=2).line
    assert "approved has 1 value:" in watch(day(1, 200).assign(approved="perhaps"), code=2).line


def test_calls_of_few_decisions_in_other_words(watch: Run) -> None:
    """Calls of one group, of one value and of none; values keep the meaning that they had."""
    frame = day(1, 300).replace({"approved": {"yes": "granted", "no": "refused"}})
    options = ("--positive", "granted", "--period", "call", "--json")
    both = (*options, "--negative", "refused")
    for sex, approved in (("f", "refused"), ("m", "granted"), ("f", "granted"), ("m", "refused")):
        watch(frame[(frame["sex"] == sex) & (frame["approved"] == approved)][:3], *both, code=0)
    for number in range(9):
        watch(day(2, 9).iloc[number : number + 1].assign(approved="refused"), *options, code=0)
    document = json.loads(watch(day(2, 0), *options).out)
    assert [entry["period"] for entry in document["history"]] == [f"call {n}" for n in range(1, 14)]
    assert document["history"][-1]["rows"] == 21
    line = watch(
        day(3, 9).assign(approved="granted"), "--positive", "refused", "--period", "call", code=2
    ).line
    assert "another meaning" in line
    gone = ("--positive", "granted", "--negative", "refused", "--others", "drop", "--period", "call")
    watch(day(3, 9).assign(approved=["open", *["granted"] * 8]), *gone, code=0)


def test_spellings_of_unknown_are_one_group_in_whatever_call_they_come(watch: Run) -> None:
    for number, sex in enumerate(("n/a", "NA", "keine Angabe", "secret"), 1):
        document = json.loads(watch(day(number, 50).assign(sex=sex), "--unknown", "secret", "--json").out)
    assert [list(counts) for counts in document["counts"].values()] == [["unknown"], ["unknown"]]
    assert document["gates"][0]["outcome"] == "undecided"


def test_times_have_zones_and_clocks_go_backwards(watch: Run) -> None:
    zones = ["2026-03-31T23:30:00-05:00", "2026-04-01T03:00Z", "2026-02", "2026-04-01 05:00:00.5+02:00"]
    options = ("--time", "when", "--json")
    document = json.loads(watch(day(1, 4).assign(when=zones), *options).out)
    assert [(entry["period"], entry["new"]) for entry in document["history"]] == [
        ("2026-02", 1), ("2026-03", 1), ("2026-04", 2),
    ]  # fmt: skip
    late = watch(day(2, 2).assign(when=["2026-01-01", "2026-05-01"]), *options)
    assert "1 decisions are older" in late.err
    periods = [entry["period"] for entry in json.loads(late.out)["history"]]
    assert periods == ["2026-01", "2026-02", "2026-03", "2026-04", "2026-05"]
    assert "needs dates" in watch(day(3, 2).assign(when=["1", "2"]), code=2).line


def test_wide_input_is_taken(watch: Run) -> None:
    """A thousand versions, a key of 100,000 characters, a third level of the protected column."""
    many = day(1).assign(version=[f"v{row}" for row in range(1000)])
    many.loc[0, "id"] = "x" * 100_000
    watch(many, code=0)
    changed = watch(many.assign(approved="no"), code=2)
    assert len(changed.line) < 500
    third = watch(day(2, 50).assign(sex="d"), "--json")
    assert "groups not seen before" in third.err
    document = json.loads(third.out)
    assert len(document["counts"]) == 1001
    assert set(document["history"][0]["counts"]) == {"f", "m", "d"}


def test_a_key_of_whole_numbers_is_one_however_it_is_written(watch: Run) -> None:
    """A column with an empty cell is written as 17.0; that rows are alike but for their key is no news."""
    many = pd.concat([day(number % 28 + 1, 100, 0.0) for number in range(28)])
    many = many.assign(id=range(2800), sex=np.where(np.arange(2800) % 3, many["sex"], "d"))
    watch(many, code=0)
    again = watch(many.assign(id=many["id"].astype(float)), "--forget", "17.0", "--json", code=0)
    assert sum(entry["new"] for entry in json.loads(again.out)["history"]) == 2800
    assert not again.err


def test_one_pair_that_is_mended_does_not_end_the_alarm_of_another(watch: Run) -> None:
    for number, (d, f) in enumerate([(0.5, 0.5), (0.1, 0.5), (0.1, 0.1), *[(0.42, 0.5)] * 2], 1):
        frame, rng = day(number, 5000), np.random.default_rng(number)
        frame["sex"] = rng.choice(["d", "f", "m"], 5000)
        rates = frame["sex"].map({"d": d, "f": f, "m": 0.5})
        frame["approved"] = np.where(rng.random(5000) < rates, "yes", "no")
        result = watch(frame, "--run-length", 1000, "--json", code=5 if number in {2, 3} else 0)
    document = json.loads(result.out)
    assert {tuple(alarm["groups"]): alarm["over"] for alarm in document["alarms"]} == {
        ("m", "d"): False, ("f", "d"): False, ("m", "f"): True,
    }  # fmt: skip
    (gate,) = document["gates"]
    assert "this alarm continues" in gate["reason"]


def test_an_alarm_of_periods_that_come_backwards_is_marked(watch: Run) -> None:
    more = ("--period", "day", "--run-length", 1000)
    calls = [watch(day(number, 300, 0.5), *more) for number in (9, 5, 3)]
    assert 5 in [call.code for call in calls]
    assert calls[-1].out.count(" ALARM") == 4  # three days and a note


def test_a_decision_that_was_forgotten_never_counts_again(watch: Run, tmp_path: Path) -> None:
    watch(day(1, 300), code=0)
    before = json.loads(watch(day(1, 300), "--json").out)["counts"]
    assert "no decision 'me'" in watch(day(1, 300), "--forget", "me", code=2).line
    other = day(1, 300)
    other.loc[[17, 18], "approved"] = "no"
    for more in (("--forget", "1-17", "--forget", "1-18"), ()):
        assert json.loads(watch(other, "--json", *more, code=0).out)["counts"] == before
    assert kept(tmp_path) == (298, 300)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def changed(*statements: str) -> Any:
    def change(path: Path) -> None:
        with sqlite3.connect(path, isolation_level=None) as database:
            for statement in statements:
                database.execute(statement)

    return change


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (cut, "state.db"),
        (lambda path: path.write_text("not a state"), "not a state"),
        (lambda path: path.write_text('{"format": "fwc-llm-monitor/9"}'), "not a state.*JSON"),
        (lambda path: path.unlink() or changed("CREATE TABLE t (x)")(path), "not a state"),
        (changed("PRAGMA user_version = 9"), "later version"),
        (changed("UPDATE counts SET n = n + 1 WHERE cell = 0"), "counts is not as"),
        (changed("DELETE FROM decisions WHERE key > 0"), "decisions is not as"),
        (changed("INSERT INTO decisions (key) VALUES (3)"), "decisions is not as"),
        (changed("UPDATE summary SET value = '[]' WHERE name = 'alarms'"), "alarms is not as"),
        (changed("DELETE FROM summary WHERE name = 'salt'"), "salt is not as"),
        (changed("CREATE TRIGGER t AFTER INSERT ON counts BEGIN DELETE FROM decisions; END"), "not a state"),
    ],
)  # fmt: skip
def test_a_state_that_is_damaged_or_foreign_is_refused(
    watch: Run, tmp_path: Path, damage: Any, why: str
) -> None:
    watch(day(4), code=5)
    damage(tmp_path / "state.db")
    before = (tmp_path / "state.db").read_bytes()
    assert re.search(why, watch(day(5), code=2).line)
    assert (tmp_path / "state.db").read_bytes() == before


def test_calls_at_once_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    folders = []
    for number in range(3):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        pd.concat([day(number + 1, 300), day(number + 2, 300)]).to_csv(folder / "decisions.csv", index=False)
        folders.append(folder)
    shared = ("--state", tmp_path / "state.db")
    ends = [process.communicate() for process in [start(folder, *shared) for folder in folders]]
    assert kept(tmp_path) == (1200, 1200), ends


def test_a_call_that_is_killed_leaves_all_or_nothing(tmp_path: Path, watch: Run) -> None:
    watch(day(1, 100), code=0)
    pd.concat([day(number, 4000) for number in range(2, 8)]).to_csv(tmp_path / "decisions.csv", index=False)
    process, journal = start(tmp_path), tmp_path / "state.db-journal"
    while not journal.exists() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert kept(tmp_path) in ((100, 100), (24_100, 24_100))
    start(tmp_path).communicate()
    assert kept(tmp_path) == (24_100, 24_100)


def test_a_full_disk_is_said_and_leaves_the_state_as_it_was(tmp_path: Path, watch: Run) -> None:
    watch(day(1, 100), code=0)
    before = (tmp_path / "state.db").read_bytes()
    day(2, 8000).to_csv(tmp_path / "decisions.csv", index=False)

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50_000, len(before) + 50_000))

    process = start(tmp_path, preexec_fn=small_files)
    assert "cannot use the state" in process.communicate()[1].splitlines()[-1]
    assert process.returncode == 2
    assert kept(tmp_path) == (100, 100)
