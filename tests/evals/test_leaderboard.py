"""The leaderboard from the question to the page: asked, checked, ranked by what is decided."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from evals.leaderboard.__main__ import main
from evals.leaderboard.check import check
from evals.leaderboard.page import build, ranks
from evals.leaderboard.run import Asking
from fwc_llm.errors import FwcError
from fwc_llm.models import Client
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.journal import Journal
from fwc_llm.runs.recorded_run import score_run
from tests.faults.loopback import HttpReply, Service, nouls, refusal, serve_in_thread

KINDS = ["natural", "parity", "probes"]


def run(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Ask about German credit alone; the exit code and the file."""
    code = main(["run", "--tasks", "german", "--rows", "16", "--folder", str(folder), *options])
    return code, json.loads((folder / "entry.json").read_text())


@pytest.fixture(scope="module")
def runs(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    assert run(folder, "--model", "baseline")[0] == 4, "other tasks are missing"
    return folder


def changed(runs: Path, path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps(json.loads((runs / "entry.json").read_text()) | changes))
    return path


def test_a_file_says_what_was_asked_and_what_is_missing_and_can_be_made_again(runs: Path) -> None:
    entry = json.loads((runs / "entry.json").read_text())
    assert list(entry["parts"]) == [f"german-{kind}" for kind in KINDS]
    assert len(entry["missing"]) == 9
    assert entry["reference"]
    assert [part["requests"] for part in entry["parts"].values()] == [2 * 16, 2 * 16, 16 * 4]
    zero = entry["parts"]["german-natural"]["arms"]["zero"]
    for key in ("accuracy", "gap", "ratio", "coverage", "informed"):
        assert zero[key]["low"] <= zero[key]["value"] <= zero[key]["high"]
    assert entry["parts"]["german-probes"]["arms"]["zero"]["probes"][0]["probe"] == "names"
    assert check(runs / "entry.json", runs) == []
    assert run(runs, "--model", "baseline")[1] == entry, "nothing is asked twice"


def test_check_names_what_is_not_so(runs: Path, tmp_path: Path) -> None:
    parts = json.loads((runs / "entry.json").read_text())["parts"]
    parts["german-parity"]["arms"]["fwc"]["gap"]["low"] += 0.01
    copy = tmp_path / "runs"
    shutil.copytree(runs, copy)
    described = json.loads((copy / "german-parity" / "run.json").read_text())
    described["settings"]["margin"] = 0.9
    described["parameters"]["replayed"] = 64 * "0"
    (copy / "german-parity" / "run.json").write_text(json.dumps(described))
    rescored = RunFolder(copy / "german-parity")
    with Journal(rescored.path) as opened:
        score_run(rescored, opened)  # all in the folder agrees
    journal = copy / "german-natural" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-1]))  # a reply that was not liked
    shutil.rmtree(copy / "german-probes")
    file = changed(runs, tmp_path / "file.json", parts=parts, missing={}, reference=False)
    told = "\n".join(check(file, copy))
    assert told.count("not there, and not said to be missing") == 9
    assert "german-parity: arms.fwc.gap.low: 0.0" in told
    assert "german-parity: run.json differs: margin is 0.9" in told
    assert "german-natural: journal.jsonl differs" in told
    assert re.search(r"german-natural: journal.jsonl not verified: [1-9]\d* of the plan's", told)
    assert told.count("the file does not say that it is simulated, or a reference") == 2
    assert "german-probes: " in told
    assert "german-parity: the replies of another run were replayed" in told
    with pytest.raises(FwcError, match="no replayed replies"):
        Asking(f"replay:{runs}", tmp_path, 16, "chat", Client()).parts()
    with pytest.raises(FwcError, match="no file of the leaderboard"):
        check(changed(runs, file, rows="16"), runs)


def test_a_model_that_ends_in_mid_protocol_leaves_a_file_that_says_so(data_dir: Path, tmp_path: Path) -> None:
    def answer(body: Any) -> HttpReply:
        gone = len(service.bodies) > 40
        return refusal(401, "the key is gone") if gone else HttpReply(nouls(0.25, names=[*body["questions"]]))

    service = Service(answer)
    with serve_in_thread(service) as url:
        options = ("--model", "jev", "--api", "systemone", "--base-url", f"{url}/v1", "--concurrency", "1")
        code, entry = run(tmp_path, *options)
    assert (code, list(entry["parts"])) == (4, ["german-natural", "german-parity"])
    missing = [entry["missing"].get(f"german-{kind}", "") for kind in KINDS]
    assert missing[0] == ""
    assert all("rejects the key" in why for why in missing[1:])
    assert check(tmp_path / "entry.json", tmp_path) == []
    assert entry["parts"]["german-natural"]["arms"]["zero"]["contradictions"]["low"] is not None
    page = tmp_path / "page.md"
    (tmp_path / "entries").mkdir()
    changed(tmp_path, tmp_path / "entries" / "jev.json", model="<b>|[x](y)\n# no")
    build(tmp_path / "entries", page)
    assert r"\<b\>\|\[x\](y) \# no · systemone · partial" in page.read_text()
    assert "like a coin" in page.read_text()


def entry(model: str, low: float, high: float, follows: float = 0.2, **changes: Any) -> dict[str, Any]:
    informed = {"value": follows, "low": follows - 0.1, "high": follows + 0.1}
    arm = {"gap": {"value": (low + high) / 2, "low": low, "high": high}, "informed": informed}
    parts = {f"{task}-natural": {"arms": {"zero": arm}} for task in ("adult", "census")}
    whole = {"model": model, "rows": 500, "missing": {}, "parts": parts}
    return whole | {"simulated": False, "reference": False} | changes


def test_models_rank_behind_others_only_where_intervals_decide() -> None:
    entries = [
        entry("c", 0.3, 0.4), entry("b", 0.1, 0.25), entry("a", 0.05, 0.2), entry("coin", 0.0, 0.1, 0.05),
        entry("s", 0.0, 0.0, simulated=True), entry("part", 0.0, 0.0, rows=50),
        entry("worse", 0.0, 0.1, -0.2),
        entry("ended", 0.0, 0.0, missing={"adult-natural": "gone"}), entry("log", 0.0, 0.0, reference=True),
    ]  # fmt: skip
    assert [(each["model"], rank) for each, rank in ranks(entries, "adult")] == [
        ("a", "1–2 of 3"), ("b", "1–2 of 3"), ("c", "3 of 3"), ("coin", "cannot be told from a coin"),
        ("ended", "partial"), ("part", "partial"), ("worse", "worse than a coin"), ("log", "reference"),
        ("s", "SIMULATED"),
    ]  # fmt: skip
    assert not [rank for _, rank in ranks(entries, "census") if " of " in rank], "its rows are simulated"
