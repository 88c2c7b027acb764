"""Time and memory of auditing recorded answers, from 10,000 to a million of them.

    python -m evals.bench.audit            # a minute: 10,000 and 100,000 answers
    python -m evals.bench.audit --full     # 1,000,000 too; records the results

The answers are made up (simulated): two protected columns with 2 and 4 levels, P(yes) for every answer, 1 %
of the answers empty. Every command runs in a process of its own; what is counted is that process's CPU
seconds, all threads together, and its peak of resident memory, imports included.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

RESULTS = Path(__file__).resolve().parent.parent / "results"
SIZES = (10_000, 100_000)
FULL = 1_000_000
ARMS = ("zero", "few")
MOST_SECONDS, MOST_MEGABYTES = 60.0, 1000.0  # for a million answers


def make_answers(n: int, seed: int = 0) -> "pd.DataFrame":
    """n made-up answers, one to every row, in the columns id, sex, race, was, said and p."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    label = rng.random(n) < 0.3
    p = np.clip(rng.beta(2, 4, n) + 0.2 * label, 0, 1)
    said = np.where(p > 0.5, "yes", "no").astype(object)
    said[rng.random(n) < 0.01] = None
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "sex": rng.choice(["Male", "Female"], n, p=[0.6, 0.4]),
            "race": rng.choice(["White", "Black", "Asian", "Other"], n, p=[0.7, 0.15, 0.1, 0.05]),
            "was": np.where(label, "yes", "no"),
            "said": said,
            "p": p,
        }
    )


def make_run(folder: Path, n: int) -> None:
    """A run's folder with n made-up answers of two arms."""
    from fwc_llm.runs.folder import FORMAT, RunFolder
    from fwc_llm.runs.results import arm_metrics

    rows = []
    for arm in ARMS:
        frame = make_answers(n // len(ARMS), len(arm)).assign(id=range(n // len(ARMS)))
        first = make_answers(n // len(ARMS))  # all arms see the same rows
        lost = frame["said"].isna()
        columns = {
            "row": frame["id"].astype(str),
            "group": first["sex"],
            "label": first["was"],
            "answer": frame["said"].where(~lost, ""),
            "reason": lost.map({True: "other", False: ""}),
            "p_yes": frame["p"].map("{:.6f}".format),
            "reply": frame["said"].where(~lost, "I would rather not say."),
        }
        fixed = {"arm": arm, "repeat": 0, "variant": "", "simulated": "true"}
        names = tuple(columns)
        rows += [fixed | dict(zip(names, line, strict=True)) for line in zip(*columns.values(), strict=True)]
    described: dict[str, Any] = {
        "format": FORMAT,
        "task": "made-up",
        "title": "Made-up answers",
        "model": "made-up",
        "parameters": {},
        "simulated": True,
        "arms": list(ARMS),
        "sources": {arm: arm for arm in ARMS},
        "settings": {"n_test": n // len(ARMS), "base_parity": None, "repeats": 1, "seed": 0},
        "fingerprint": "0" * 64,
        "calls": len(rows),
    }
    run = RunFolder(folder)
    run.create()
    run.write_json("run.json", described)
    run.write_answers(rows)
    results = {
        **{"format": "fwc-llm-results/1", "task": "made-up", "model": "made-up", "simulated": True},
        **{name: described["settings"][name] for name in ("n_test", "base_parity", "seed", "repeats")},
        **{"requests": len(rows), "unanswered": 0},
        "arms": [arm_metrics(arm, [row for row in rows if row["arm"] == arm]) for arm in ARMS],
    }
    run.write_json("results.json", results)


def commands(folder: Path) -> dict[str, list[str]]:
    """The commands that are measured, by the words that the results have for them."""
    columns = ["--label", "was", "--protected", "sex,race"]
    out = ["--out", str(folder / "audit.json")]
    page = ["--report", str(folder / "audit.html")]
    table = str(folder / "answers.csv")
    return {
        "audit, CSV": ["audit", table, "--answer", "said", *columns, *out],
        "audit, CSV, P(yes)": ["audit", table, "--answer", "said", "--p-yes", "p", *columns, *out],
        "audit, CSV, P(yes), rows named, page": [
            *("audit", table, "--answer", "said", "--p-yes", "p", "--row", "id", *columns, *out, *page)
        ],
        "audit, Parquet, P(yes), page": [
            *("audit", str(folder / "answers.parquet"), "--answer", "said", "--p-yes", "p", *columns, *page)
        ],
        "report of a run's folder, 2 arms": ["report", str(folder / "run"), "-o", str(folder / "run.html")],
    }


def measure(command: Sequence[str]) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak megabytes of one command, in a process of its own."""
    code = (
        "import resource, subprocess, sys, time; t = time.perf_counter();"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL);"
        "u = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(u.ru_utime + u.ru_stime, time.perf_counter() - t, u.ru_maxrss / 1024)"
    )
    whole = [sys.executable, "-c", code, sys.executable, "-m", "fwc_llm", *command]
    done = subprocess.run(whole, capture_output=True, text=True, check=True)
    cpu, wall, peak = map(float, done.stdout.split())
    return cpu, wall, peak


def points(n: int) -> list[dict[str, Any]]:
    """All commands on n answers."""
    found = []
    with tempfile.TemporaryDirectory(prefix="fwc-llm-bench-") as place:
        folder = Path(place)
        answers = make_answers(n)
        answers.to_csv(folder / "answers.csv", index=False)
        answers.to_parquet(folder / "answers.parquet", index=False, row_group_size=100_000)
        make_run(folder / "run", n)
        for name, command in commands(folder).items():
            cpu, wall, peak = measure(command)
            found.append({"command": name, "answers": n, "cpu": cpu, "wall": wall, "megabytes": peak})
            print(f"{n:>9,} answers  {name:<40} {cpu:6.1f} CPU s  {peak:6.0f} MB", flush=True)
    return found


def report(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "# Audits of many answers (simulated)",
        "",
        f"Made by `{found['command']}` on {found['machine']}. The answers are made up. CPU seconds of all "
        "threads and peak resident memory, imports included, of each command in a process of its own. The "
        "aim for a million answers: 60 seconds and 1 GB.",
        "",
        "| command | answers | CPU s | peak MB |",
        "|---|---:|---:|---:|",
    ]
    lines += [
        f"| {p['command']} | {p['answers']:,} | {p['cpu']:.1f} | {p['megabytes']:.0f} |"
        for p in found["points"]
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="1,000,000 answers too; record the results")
    arguments = parser.parse_args()
    from evals.bench.solver import describe_machine

    found: dict[str, Any] = {
        "command": "python -m evals.bench.audit" + (" --full" if arguments.full else ""),
        "machine": describe_machine(),
        "points": [point for n in (*SIZES, *([FULL] if arguments.full else [])) for point in points(n)],
    }
    if arguments.full:
        (RESULTS / "audit.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        (RESULTS / "audit.md").write_text(report(found), encoding="utf-8")
    slow = [p for p in found["points"] if p["cpu"] > MOST_SECONDS or p["megabytes"] > MOST_MEGABYTES]
    print("within 60 CPU seconds and 1 GB" if not slow else f"beyond 60 CPU seconds or 1 GB: {slow}")


if __name__ == "__main__":
    main()
