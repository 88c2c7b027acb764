"""Score what was asked, by the plan, and write evals/results/real-model.{json,md,svg}."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from evals.paper.published import published
from evals.real_model.ask import EXPERIMENTS, arms_of, prepared, read_answers
from evals.real_model.scores import (
    DRAWS,
    LEAST_DIFFERENT,
    METRICS,
    Experiment,
    bootstrap,
    calibration,
    holm,
    interval,
    p_value,
    read_experiment,
)
from fwc_llm.models import Client
from fwc_llm.models.surrogate.model import FORMS
from fwc_llm.plotting import COLOURS, MARKERS, SOFT, name_lines, panels, save
from fwc_llm.runs.folder import RunFolder
from fwc_llm.tasks import load_task

RESULTS = Path(__file__).resolve().parents[1] / "results"
CONTRASTS = (
    *(("fwc", "zero"), ("fwc", "balanced"), ("balanced", "zero")),
    *(("fwc", other) for other in ("shuffled", "random", "kmedoids", "flipped")),
)
BESIDE_B = ("zero", "fwc-1", "balanced-1", "fwc-2", "balanced-2")  # arms of A
MARGIN = 0.05  # of accuracy and of the DP gap, by the plan
_TITLES = {"accuracy": "accuracy", "dp": "DP gap", "eo": "EO gap", "auc": "AUC"}


def report(folder: Path = RESULTS) -> None:
    """Write the page, its picture and its numbers, of the experiments that have complete arms."""
    rows = read_answers()
    content: dict[str, Any] = {"command": "python -m evals.real_model report", "experiments": {}}
    for name in EXPERIMENTS:
        part = [row for row in rows if row["experiment"] == name]
        complete = part and read_experiment(part, arms_of(name)).arms
        content["experiments"][name] = summary(name, part, rows) if complete else {"complete": []}
    content["missing"] = [name for name, found in content["experiments"].items() if not found["complete"]]
    content["surrogate"] = surrogate_scores("A", content["experiments"]["A"]["complete"])
    if of_b := content["experiments"]["B"]["complete"]:
        content["surrogate_b"] = surrogate_scores("B", [*BESIDE_B, *of_b])
    content["recorded"] = recorded_contrasts()
    (folder / "real-model.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (folder / "real-model.md").write_text(page(content), encoding="utf-8")
    picture(content["experiments"]["A"], folder / "real-model.svg")


def summary(
    name: str, rows: Sequence[Mapping[str, str]], recorded: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """The scores of an experiment's complete arms, its contrasts, and the verdicts of the plan.

    Beside B stand the arms of A, with as many sets, on the rows of B.
    """
    expected = arms_of(name)
    data = read_experiment(rows, expected, group_shares(name))
    asked = list(data.arms)
    if name == "B":
        same = {row["row"] for row in rows}
        beside = [row for row in recorded if row["experiment"] == "A" and row["row"] in same]
        data = read_experiment([*beside, *rows], [*BESIDE_B, *asked])
    found = scores(data)
    return {
        "complete": asked,
        "missing": [arm for arm in expected if arm not in asked],
        "questions": len(rows),
        "planned": len(expected) * len(data.label),
        "seconds": round(sum(float(row["seconds"]) for row in rows)),
        "rows": len(data.label),
        **found,
        "verdicts": verdicts(found["contrasts"]) if name == "A" else [],
    }


def group_shares(name: str) -> dict[str, float] | None:
    """The groups' shares of the table of an experiment whose rows are drawn by group."""
    if not name.startswith("C"):
        return None
    task = load_task(EXPERIMENTS[name].task)
    counts = task.cells_of(task.test()).sum(1)
    return dict(zip(task.groups, (counts / counts.sum()).tolist(), strict=True))


def scores(data: Experiment) -> dict[str, Any]:
    """Values and intervals of strategies and contrasts: of these examples, and of the strategy."""
    kinds = {"examples": bootstrap(data, redraw_sets=False), "strategy": bootstrap(data, redraw_sets=True)}
    sets = data.sets()
    number = {name: place for place, name in enumerate(sets)}

    def entry(scoring: str, metric: int, first: str, second: str = "") -> dict[str, Any]:
        draws = {kind: table[scoring][:, number[first], metric] for kind, table in kinds.items()}
        if second:
            draws = {k: value - kinds[k][scoring][:, number[second], metric] for k, value in draws.items()}
        found: dict[str, Any] = {
            "value": float(draws["examples"][0]),
            "examples": interval(draws["examples"]),
        }
        if all(name in ("zero", "") or len(sets[name]) > 1 for name in (first, second)):
            found |= {"strategy": interval(draws["strategy"]), "p": p_value(draws["strategy"])}
        return found

    def entries(*names: str) -> dict[str, Any]:
        return {s: {m: entry(s, k, *names) for k, m in enumerate(metrics)} for s, metrics in METRICS.items()}

    yes = {name: [int(data.said[arm].sum()) for arm in arms] for name, arms in sets.items()}
    most = len(data.label) - LEAST_DIFFERENT
    return {
        "strategies": {
            name: {
                "sets": len(arms),
                "yes": yes[name],
                "evidence": all(LEAST_DIFFERENT <= count <= most for count in yes[name]),
                **entries(name),
            }
            for name, arms in sets.items()
        },
        "contrasts": [
            {"first": a, "second": b, **entries(a, b)} for a, b in CONTRASTS if {a, b} <= set(sets)
        ],
        "calibration": list(calibration(data)),
    }


def verdicts(contrasts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The plan's verdict on `fwc` against zero-shot and against balanced examples, centred."""
    primary = [contrast for contrast in contrasts if contrast["first"] == "fwc"]
    adjusted = holm([contrast["centred"]["dp"].get("p", 1.0) for contrast in primary])
    found = []
    for contrast, p in zip(primary, adjusted, strict=True):
        gap, accuracy = (contrast["centred"][metric].get("strategy") for metric in ("dp", "accuracy"))
        if gap is None:
            verdict = "not judged, one set of examples does not show a strategy"
        elif gap[1] < 0 and p < 0.05 and accuracy[0] >= -MARGIN:
            verdict = f"support (Holm p {p:.2g})"
        elif contrast["second"] == "zero" and (gap[0] > -MARGIN or accuracy[1] < -MARGIN):
            verdict = f"refuted (Holm p {p:.2g})"
        else:
            verdict = f"these rows do not settle it (Holm p {p:.2g})"
        found.append({"against": contrast["second"], "verdict": verdict})
    return found


def surrogate_scores(experiment: str, arms: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The scores of the surrogate's forms (SIMULATED): the same rows, the same examples."""
    planned, found = dict.fromkeys([*arms, *arms_of(experiment)]), {}
    for form in FORMS:
        job = prepared(experiment, f"surrogate:{form}", list(planned), Client())
        chosen = tuple(arm for arm in job.plan.arms if arm.name in arms)
        saved = {arm.source: job.plan.saved[arm.source] for arm in chosen if arm.source in job.plan.saved}
        job = replace(job, plan=replace(job.plan, arms=chosen, saved=saved))
        with tempfile.TemporaryDirectory() as scratch:
            answers = list(RunFolder(job.run(Path(scratch) / "run").folder).read_answers())
        found[form] = scores(read_experiment(answers, arms))
    return found


def recorded_contrasts() -> list[dict[str, Any]]:
    """DP gap and accuracy of recorded GPT-4 (DecodingTrust) and of the paper's, as differences of arms."""
    known = pd.read_csv(RESULTS / "paper" / "llm.csv").query("source == 'recorded answers'")
    recorded = known.query("model == 'gpt-4-0314' and base_parity == 0").set_index("arm")
    paper = published("llm").query("model == 'GPT-4'").set_index("arm")
    paper["accuracy"] /= 100
    return [
        {"source": source, "first": first, "second": second}
        | {metric: float(table[metric][first] - table[metric][second]) for metric in ("dp", "accuracy")}
        for source, table in (("recorded", recorded), ("paper", paper))
        for first, second in CONTRASTS
        if {first, second} <= set(table.index)
    ]


def page(content: Mapping[str, Any]) -> str:
    """The page: what was asked and is missing, the verdicts, the scores, and the surrogate beside them."""
    blocks = [_HEAD]
    for name, found in content["experiments"].items():
        if not found["complete"]:
            continue
        asked = EXPERIMENTS[name]
        tables = METRICS if name == "A" else ("centred", "ranking")
        so_far = "so far " * bool(found["missing"])
        blocks += [
            f"## Experiment {name}: Qwen2.5-Coder-{asked.model.upper()}-Instruct, {asked.task.capitalize()}",
            *(_WHICH[part] for part in dict.fromkeys((name[0], name)) if part in _WHICH),
            f"{found['questions']:,} of {found['planned']:,} questions are asked, in "
            f"{found['seconds'] / 3600:.1f} hours. Complete: {', '.join(found['complete'])}. "
            f"Missing: {', '.join(found['missing']) or 'nothing'}.",
            *(
                f"**FWC against {_NAMES[judged['against']]}, centred DP gap: {so_far}{judged['verdict']}.**"
                for judged in found["verdicts"]
            ),
            *[_NOTE] * (name == "A"),
            *(f"### {scoring.capitalize()}\n\n" + _table(found, scoring) for scoring in tables),
            *[_calibration(found)] * (name == "A"),
        ]
    if missing := ", ".join(content["missing"]):
        blocks.append(f"Not asked yet: experiments {missing} of [the plan](../real_model/plan.md).")
    compared = [
        _side_by_side(content["experiments"][name], content[key], content["recorded"])
        for name, key in (("A", "surrogate"), ("B", "surrogate_b"))
        if key in content
    ]
    return "\n\n".join([*blocks, _SURROGATE, *compared]) + "\n"


_NAMES = {"zero": "zero-shot", "balanced": "balanced examples", "fwc": "FWC"}
_NAMES |= {"shuffled": "FWC, weights shuffled", "random": "random examples", "kmedoids": "k-medoids"}
_NAMES |= {"flipped": "random, labels flipped to parity"}
_WHICH = {
    "B": "What of FWC matters, on 100 rows of A? Zero-shot, balanced and FWC are A's answers about them.",
    "C": "100 rows as they fall, 50 of each group, weighted back to the groups' shares of the table, in the "
    "centre, too. Here perfect answers have the table's own gap.",
    "C-german": "All seeds of FWC choose the same 16 rows: one set is asked.",
    "D": "The same rows and examples as A, asked of the smaller model.",
}
_HEAD = """\
# A real model: do FWC's examples make its answers fairer?

Made by `python -m evals.real_model report` from the replies in `evals/real_model/answers.csv`, by
[a plan that was committed before the first question](../real_model/plan.md). Adult, 200 test rows at base
parity 0.5, 16 examples, temperature 0. In this design perfect answers have a DP gap of 0.50: a lower gap is
bought with errors. Strangers packed the model's file; its sha256 was checked against the recorded one, not
against the maker's.

![DP gap and accuracy by strategy, centred](real-model.svg)"""
_NOTE = f"""\
(…) = 95 % interval of the strategy: other rows and other sets of examples ({DRAWS:,} bootstrap draws);
[…] = these examples, other rows alone. From few sets the first is too narrow, from one there is none.
Differences pair the rows. No evidence: fewer than five answers of an arm differ from the rest."""
_SURROGATE = """\
## Does the surrogate react as a real model does?

The surrogate is a SIMULATION of GPT-4's recorded answers. Its forms are asked about the same rows with the
same examples, first of A, then of B. As answered, unless the column says centred. GPT-4 as recorded has 4
balanced examples, other rows in each arm and a base parity of 0; its standard error is up to 0.10. The
paper's rows are others, too, and it gives no intervals of differences."""


def _cell(entry: Mapping[str, Any], form: str, kinds: Sequence[str] = ("strategy", "examples")) -> str:
    ends = {"strategy": "({} to {})", "examples": "[{} to {}]"}
    known = [kind for kind in kinds if kind in entry] or ["examples"]
    parts = [ends[kind].format(*(format(end, form) for end in entry[kind])) for kind in known]
    return " ".join([format(entry["value"], form), *parts]).replace("-", "−")


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    table = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def _difference(contrast: Mapping[str, Any]) -> str:
    return f"{_NAMES[contrast['first']]} − {_NAMES[contrast['second']]}"


def _cell_of(
    found: Mapping[str, Any], contrast: Mapping[str, Any], scoring: str, metric: str, *kinds: str
) -> str:
    """A difference, unless an arm's answers as given are no evidence."""
    known = [found["strategies"][contrast[side]]["evidence"] for side in ("first", "second")]
    if scoring == "as answered" and not all(known):
        return "no evidence"
    return _cell(contrast[scoring][metric], "+.2f", kinds or ("strategy", "examples"))


def _table(found: Mapping[str, Any], scoring: str) -> str:
    lines, told = [], "as answered" if len(found["verdicts"]) else "centred"
    for name, entry in found["strategies"].items():
        title = f"{_NAMES[name]} ({entry['sets']} set{'s' * (entry['sets'] > 1)}"
        if scoring == told:  # where there is no table of the answers as given, beside the centred ones
            title += f", yes to {', '.join(map(str, entry['yes']))} of {found['rows']} rows"
            title += "; no evidence" * (not entry["evidence"])
        lines.append([f"{title})", *(_cell(entry[scoring][metric], ".2f") for metric in METRICS[scoring])])
    lines += [
        [_difference(contrast), *(_cell_of(found, contrast, scoring, metric) for metric in METRICS[scoring])]
        for contrast in found["contrasts"]
    ]
    return _markdown(["", *(_TITLES[metric] for metric in METRICS[scoring])], lines)


def _calibration(found: Mapping[str, Any]) -> str:
    lines = [[e["arm"], *(f"{v:.2f}" for v in e["calibration_error"].values())] for e in found["calibration"]]
    head = "calibration error (ten bins; without interval, for it is biased upwards)"
    return _markdown([head, *found["calibration"][0]["calibration_error"]], lines)


def _side_by_side(
    real: Mapping[str, Any], simulated: Mapping[str, Any], recorded: Sequence[Mapping[str, Any]]
) -> str:
    columns = {"1.5B, centred": (real, "centred"), "1.5B": (real, "as answered")}
    columns |= {f"{form}, simulated": (found, "as answered") for form, found in simulated.items()}
    others = {(e["source"], e["first"], e["second"]): e for e in recorded}
    lines = []
    for number, contrast in enumerate(real["contrasts"]):
        for metric in ("dp", "accuracy"):
            known = [others.get((s, contrast["first"], contrast["second"])) for s in ("recorded", "paper")]
            lines.append([
                f"{_TITLES[metric]}, {_difference(contrast)}",
                *(_cell_of(f, f["contrasts"][number], s, metric, "strategy") for f, s in columns.values()),
                *(f"{entry[metric]:+.2f}".replace("-", "−") if entry else "–" for entry in known),
            ])  # fmt: skip
    return _markdown(["", *columns, "GPT-4, recorded", "GPT-4, the paper"], lines)


def picture(found: Mapping[str, Any], path: Path) -> None:
    """Draw the centred DP gap and accuracy of each strategy with the intervals of the strategy."""
    names = list(found["strategies"])
    title = "Qwen2.5-Coder-1.5B-Instruct on Adult, centred: value, 95 % interval"
    with panels([title], [3.6, 3.6], 1.9) as (figure, drawn):
        for panel, metric in zip(drawn, ("dp", "accuracy"), strict=True):
            for line, name in enumerate(names):
                entry = found["strategies"][name]["centred"][metric]
                panel.plot(
                    entry.get("strategy", entry["examples"]), [line, line], color=COLOURS[line], linewidth=2
                )
                panel.plot([entry["value"]], [line], MARKERS[line], color=COLOURS[line])
            if metric == "dp":
                panel.axvline(0.5, color=SOFT, linestyle="--", linewidth=1, label="perfect answers")
                panel.legend(frameon=False, fontsize=7)
            panel.set_xlabel(_TITLES[metric])
            name_lines(panel, [_NAMES[name] for name in names])
        save(figure, path)
