"""Score what was asked, by the plan, and write evals/results/real-model.{json,md,svg}."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from evals.paper.published import published
from evals.real_model.ask import SHOTS, arms_of, read_answers
from evals.real_model.scores import (
    DRAWS,
    LEAST_DIFFERENT,
    METRICS,
    SCORINGS,
    Draws,
    Experiment,
    bootstrap,
    calibration,
    holm,
    interval,
    p_value,
    read_experiment,
)
from fwc_llm.evaluation.evaluate import prepare
from fwc_llm.models import Client
from fwc_llm.models.surrogate.model import FORMS
from fwc_llm.plotting import COLOURS, MARKERS, SOFT, name_lines, panels, save
from fwc_llm.runs.folder import RunFolder
from fwc_llm.runs.settings import Settings

RESULTS = Path(__file__).resolve().parents[1] / "results"
CONTRASTS = (("fwc", "zero"), ("fwc", "balanced"), ("balanced", "zero"))
MARGIN = 0.05  # of accuracy and of the DP gap, by the plan
_TITLES = {"accuracy": "accuracy", "dp": "DP gap", "eo": "EO gap"}


def report(folder: Path = RESULTS) -> None:
    """Write the page, its picture and its numbers, of the experiments that have complete arms."""
    rows = read_answers()
    content: dict[str, Any] = {"command": "python -m evals.real_model report", "experiments": {}}
    for name in ("A", "D"):
        part = [row for row in rows if row["experiment"] == name]
        content["experiments"][name] = (
            summary(name, part) if part else {"complete": [], "missing": arms_of(name)}
        )
    content["missing"] = ["B", "C", *(n for n, e in content["experiments"].items() if not e["complete"])]
    content["surrogate"] = surrogate_contrasts(content["experiments"]["A"]["complete"])
    content["recorded"] = recorded_contrasts()
    (folder / "real-model.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (folder / "real-model.md").write_text(page(content), encoding="utf-8")
    picture(content["experiments"]["A"], folder / "real-model.svg")


def summary(name: str, rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The scores of an experiment's complete arms, its contrasts, and the verdicts of the plan."""
    expected = arms_of(name)
    data = read_experiment(rows, expected)
    found = scores(data)
    return {
        "complete": list(data.arms),
        "missing": [arm for arm in expected if arm not in data.arms],
        "questions": len(rows),
        "planned": len(expected) * len(data.label),
        "seconds": round(sum(float(row["seconds"]) for row in rows)),
        "rows": len(data.label),
        **found,
        "verdicts": verdicts(found["contrasts"], {s: len(arms) for s, arms in data.sets().items()}),
    }


def scores(data: Experiment) -> dict[str, Any]:
    """Values and intervals of strategies and contrasts: of these examples, and of the strategy."""
    kinds = {"examples": bootstrap(data, redraw_sets=False), "strategy": bootstrap(data, redraw_sets=True)}
    strategies, sets = list(data.sets()), data.sets()
    number = {name: place for place, name in enumerate(strategies)}
    pairs = [(a, b) for a, b in CONTRASTS if a in number and b in number]

    def values(kind: str, scoring: str, metric: int, first: str, second: str | None = None) -> Any:
        draws: Draws = kinds[kind]
        table = draws.auc if scoring == "auc" else draws.metrics[scoring][..., metric]
        return table[:, number[first]] - (table[:, number[second]] if second else 0.0)

    def described(scoring: str, metric: int, *names: str) -> dict[str, Any]:
        draws = {kind: values(kind, scoring, metric, *names) for kind in kinds}
        entry: dict[str, Any] = {"value": float(draws["examples"][0])}
        entry |= {kind: interval(each) for kind, each in draws.items()}
        return entry | ({"p": p_value(draws["strategy"])} if len(names) == 2 else {})

    def all_scores(*names: str) -> dict[str, Any]:
        table = {s: {m: described(s, k, *names) for k, m in enumerate(METRICS)} for s in SCORINGS}
        return {**table, "auc": described("auc", 0, *names)}

    yes = {arm: int(said.sum()) for arm, said in zip(data.arms, data.said, strict=True)}
    n = len(data.label)
    return {
        "strategies": {
            name: {
                "sets": len(sets[name]),
                "yes": [yes[data.arms[arm]] for arm in sets[name]],
                "evidence_as_answered": all(
                    min(yes[data.arms[arm]], n - yes[data.arms[arm]]) >= LEAST_DIFFERENT for arm in sets[name]
                ),
                **all_scores(name),
            }
            for name in strategies
        },
        "contrasts": [{"first": a, "second": b, **all_scores(a, b)} for a, b in pairs],
        "calibration": list(calibration(data)),
    }


def verdicts(contrasts: Sequence[Mapping[str, Any]], sets: Mapping[str, int]) -> list[dict[str, Any]]:
    """The plan's verdict on `fwc` against zero-shot and against balanced examples, centred."""
    primary = [each for each in contrasts if each["first"] == "fwc"]
    adjusted = holm([each["centred"]["dp"]["p"] for each in primary])
    found = []
    for each, p in zip(primary, adjusted, strict=True):
        (low, high), accuracy = each["centred"]["dp"]["strategy"], each["centred"]["accuracy"]["strategy"]
        verdict = "these rows do not settle it"
        if high < 0 and p < 0.05 and accuracy[0] >= -MARGIN:
            verdict = "support"
        elif low > -MARGIN or accuracy[1] < -MARGIN:
            verdict = "refuted"
        if sets["fwc"] < 2 or (each["second"] != "zero" and sets[each["second"]] < 2):
            verdict = "not judged: one set of examples does not show a strategy"
        found.append({"against": each["second"], "holm_p": p, "verdict": verdict})
    return found


def surrogate_contrasts(arms: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The contrasts of the surrogate's forms (SIMULATED): the same rows, the same examples."""
    names = [str(SHOTS / f"{arm}.json") if "-" in arm else arm for arm in arms_of("A")]
    settings, found = Settings(n_test=200, base_parity=0.5, seed=1), {}
    for form in FORMS:
        job = prepare("adult", f"surrogate:{form}", names, settings, Client())
        job = replace(job, plan=replace(job.plan, arms=tuple(a for a in job.plan.arms if a.name in arms)))
        with tempfile.TemporaryDirectory() as scratch:
            answers = list(RunFolder(job.run(Path(scratch) / "run").folder).read_answers())
        found[form] = scores(read_experiment(answers, arms))["contrasts"]
    return found


def recorded_contrasts() -> list[dict[str, Any]]:
    """DP gap and accuracy of recorded GPT-4 (DecodingTrust) and of the paper's, as differences of arms."""
    recorded = pd.read_csv(RESULTS / "paper" / "llm.csv").query("source == 'recorded' and base_parity == 0")
    recorded = recorded[recorded["model"] == "gpt-4-0314"].set_index("arm")
    paper = published("llm").query("model == 'GPT-4'").set_index("arm")
    paper["accuracy"] /= 100
    return [
        {"source": source, "first": first, "second": second}
        | {metric: float(table.at[first, metric] - table.at[second, metric]) for metric in ("dp", "accuracy")}
        for source, table in (("recorded", recorded), ("paper", paper))
        for first, second in CONTRASTS
        if {first, second} <= set(table.index)
    ]


def page(content: Mapping[str, Any]) -> str:
    """The page: what was asked and is missing, the verdicts, the scores, and the surrogate beside them."""
    blocks = [_HEAD]
    for name, model in (("A", "1.5B"), ("D", "0.5B")):
        found = content["experiments"][name]
        if not found["complete"]:
            continue
        blocks += [
            f"## Qwen2.5-Coder-{model}-Instruct, experiment {name}",
            f"{found['questions']:,} of {found['planned']:,} questions are asked, in "
            f"{found['seconds'] / 3600:.1f} hours. Complete: {', '.join(found['complete'])}. "
            f"Missing: {', '.join(found['missing']) or 'nothing'}.",
            *(
                f"**FWC against {_NAMES[each['against']]}: {each['verdict']}** (centred DP gap, Holm p "
                f"{each['holm_p']:.2g})."
                for each in found["verdicts"]
            ),
            _NOTE,
            *(f"### {scoring.capitalize()}\n\n" + _table(found, scoring) for scoring in SCORINGS),
            "### Ranking and calibration\n\n" + _ranking(found),
        ]
    missing = ", ".join(content["missing"])
    blocks.append(f"Not asked yet: experiments {missing} of [the plan](../real_model/plan.md).")
    return "\n\n".join([*blocks, _SURROGATE, _side_by_side(content)]) + "\n"


_NAMES = {"zero": "zero-shot", "balanced": "balanced examples", "fwc": "FWC"}
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
[…] = these examples, other rows alone. From few sets the first is too narrow. Differences pair the rows."""
_SURROGATE = """\
## Does the surrogate react as a real model does?

The surrogate is a SIMULATION of GPT-4's recorded answers. Its forms are asked about the same rows with the
same examples. As answered, unless the column says centred. GPT-4 as recorded has 4 balanced examples, other
rows in each arm and a base parity of 0; its standard error is up to 0.10. The paper's rows are others, too,
and it gives no intervals of differences."""


def _cell(entry: Mapping[str, Any], form: str, kinds: Sequence[str] = ("strategy", "examples")) -> str:
    ends = {"strategy": "({} to {})", "examples": "[{} to {}]"}
    parts = [ends[kind].format(*(format(end, form) for end in entry[kind])) for kind in kinds]
    return " ".join([format(entry["value"], form), *parts])


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    table = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def _difference(each: Mapping[str, Any]) -> str:
    return f"{_NAMES[each['first']]} − {_NAMES[each['second']]}"


def _table(found: Mapping[str, Any], scoring: str) -> str:
    lines = []
    for name, entry in found["strategies"].items():
        title = f"{_NAMES[name]} ({entry['sets']} set{'s' * (entry['sets'] > 1)}"
        if scoring == "as answered":
            title += f", yes to {', '.join(map(str, entry['yes']))} of {found['rows']} rows"
            title += "" if entry["evidence_as_answered"] else "; no evidence: nearly all answers are alike"
        lines.append([f"{title})", *(_cell(entry[scoring][metric], ".2f") for metric in METRICS)])
    lines += [
        [_difference(each), *(_cell(each[scoring][metric], "+.2f") for metric in METRICS)]
        for each in found["contrasts"]
    ]
    return _markdown(["", *_TITLES.values()], lines)


def _ranking(found: Mapping[str, Any]) -> str:
    areas = [[_NAMES[name], _cell(entry["auc"], ".2f")] for name, entry in found["strategies"].items()]
    areas += [[_difference(each), _cell(each["auc"], "+.2f")] for each in found["contrasts"]]
    errors = [
        [each["arm"], *(f"{error:.2f}" for error in each["calibration_error"].values())]
        for each in found["calibration"]
    ]
    head = "calibration error (ten bins; without interval, for it is biased upwards)"
    groups = found["calibration"][0]["calibration_error"]
    return _markdown(["", "AUC"], areas) + "\n\n" + _markdown([head, *groups], errors)


def _side_by_side(content: Mapping[str, Any]) -> str:
    real = content["experiments"]["A"]["contrasts"]
    columns = {"1.5B, centred": (real, "centred"), "1.5B": (real, "as answered")}
    columns |= {f"{form}, simulated": (each, "as answered") for form, each in content["surrogate"].items()}
    others = {(e["source"], e["first"], e["second"]): e for e in content["recorded"]}
    lines = []
    for number, each in enumerate(real):
        for metric in ("dp", "accuracy"):
            entries = [contrasts[number][scoring][metric] for contrasts, scoring in columns.values()]
            known = [others.get((s, each["first"], each["second"])) for s in ("recorded", "paper")]
            lines.append([
                f"{_TITLES[metric]}, {_difference(each)}",
                *(_cell(entry, "+.2f", ["strategy"]) for entry in entries),
                *(f"{entry[metric]:+.2f}" if entry else "–" for entry in known),
            ])  # fmt: skip
    return _markdown(["", *columns, "GPT-4, recorded", "GPT-4, the paper"], lines)


def picture(found: Mapping[str, Any], path: Path) -> None:
    """Draw the centred DP gap and accuracy of each strategy with the intervals of the strategy."""
    names = list(found["strategies"])
    title = "Qwen2.5-Coder-1.5B-Instruct on Adult, centred: value and 95 % interval of the strategy"
    with panels([title], [3.6, 3.6], 1.9) as (figure, drawn):
        for panel, metric in zip(drawn, ("dp", "accuracy"), strict=True):
            for line, name in enumerate(names):
                entry = found["strategies"][name]["centred"][metric]
                panel.plot(entry["strategy"], [line, line], color=COLOURS[line], linewidth=2)
                panel.plot([entry["value"]], [line], MARKERS[line], color=COLOURS[line])
            if metric == "dp":
                panel.axvline(0.5, color=SOFT, linestyle="--", linewidth=1, label="perfect answers")
                panel.legend(frameon=False, fontsize=7)
            panel.set_xlabel(_TITLES[metric])
            name_lines(panel, [_NAMES[name] for name in names])
        save(figure, path)
