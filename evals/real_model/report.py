"""Score what was asked, by the plan, and write evals/results/real-model.{json,md,svg}."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evals.paper.published import published
from evals.real_model.ask import (
    EXPERIMENTS,
    arms_of,
    equal_sets,
    prepared,
    read_answers,
)
from evals.real_model.scores import (
    DRAWS,
    LEAST_DIFFERENT,
    LEAST_SETS,
    METRICS,
    Experiment,
    bootstrap,
    calibration,
    estimate,
    holm,
    over_sets,
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
COMPAS = {
    "African-American": 3175,
    "Caucasian": 2103,
}  # rows of the table, which has no licence
MARGIN = 0.05  # of accuracy and of the DP gap, by the plan
_TITLES = {
    "accuracy": "accuracy",
    "gap": "gap at equal labels",
    "dp": "DP gap",
    "auc": "AUC",
}


def report(folder: Path = RESULTS) -> None:
    """Write the page, its picture and its numbers."""
    rows = read_answers()
    experiments = {name: summary(name, rows) for name in EXPERIMENTS}
    content: dict[str, Any] = {
        "command": "python -m evals.real_model report",
        "experiments": experiments,
        "surrogate": surrogate_scores("A", experiments["A"]["arms"]),
        "surrogate_b": surrogate_scores("B", [*BESIDE_B, *experiments["B"]["arms"]]),
        "recorded": recorded_contrasts(),
    }
    (folder / "real-model.json").write_text(
        json.dumps(content, indent=1) + "\n", encoding="utf-8"
    )
    (folder / "real-model.md").write_text(page(content), encoding="utf-8")
    picture(experiments["A"], folder / "real-model.svg")


def summary(name: str, recorded: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The scores of an experiment's arms, its contrasts, and the verdicts of the plan.

    Beside B stand the arms of A, with as many sets, on the rows of B.
    """
    rows = [row for row in recorded if row["experiment"] == name]
    equal = equal_sets(name)
    data = read_experiment(
        rows, [arm for arm in arms_of(name) if arm not in equal], group_shares(name)
    )
    arms = list(data.arms)
    if name == "B":
        same = {row["row"] for row in rows}
        of_a = [
            row for row in recorded if row["experiment"] == "A" and row["row"] in same
        ]
        data = read_experiment([*of_a, *rows], [*BESIDE_B, *arms])
    found = scores(data)
    return {
        "arms": arms,
        "equal": equal,
        "groups": list(data.groups),
        "questions": len(rows),
        "seconds": round(sum(float(row["seconds"]) for row in rows)),
        "rows": len(data.label),
        **found,
        "verdicts": verdicts(found["contrasts"]) if name == "A" else [],
    }


def group_shares(name: str) -> Mapping[str, float] | None:
    """The groups' shares of the table of an experiment whose rows are drawn by group."""
    if not name.startswith("C"):
        return None
    if name == "C-compas":
        return COMPAS
    task = load_task(EXPERIMENTS[name].task)
    counts = task.cells_of(task.test()).sum(1)
    return dict(zip(task.groups, (counts / counts.sum()).tolist(), strict=True))


def scores(data: Experiment) -> dict[str, Any]:
    """Values and intervals of strategies and contrasts: of these examples, and of the strategy."""
    draws = bootstrap(data)
    sets = data.sets()

    def entry(scoring: str, metric: int, *names: str) -> dict[str, Any]:
        found = estimate(draws[scoring][..., metric], *(sets[name] for name in names))
        numbers = [len(sets[name]) for name in names if name != "zero"]
        if numbers and min(numbers) >= LEAST_SETS:
            found |= over_sets(found)
        return found

    def entries(*names: str) -> dict[str, Any]:
        return {
            s: {m: entry(s, k, *names) for k, m in enumerate(metrics)}
            for s, metrics in METRICS.items()
        }

    yes = {
        name: [int(data.said[arm].sum()) for arm in arms] for name, arms in sets.items()
    }
    most = len(data.label) - LEAST_DIFFERENT
    return {
        "strategies": {
            name: {
                "sets": len(arms),
                "yes": yes[name],
                "evidence": all(
                    LEAST_DIFFERENT <= count <= most for count in yes[name]
                ),
                **entries(name),
            }
            for name, arms in sets.items()
        },
        "contrasts": [
            {"first": a, "second": b, **entries(a, b)}
            for a, b in CONTRASTS
            if {a, b} <= set(sets)
        ],
        "calibration": list(calibration(data)),
    }


def verdicts(contrasts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The plan's verdict on `fwc` against zero-shot and against balanced examples, centred."""
    primary = [contrast for contrast in contrasts if contrast["first"] == "fwc"]
    adjusted = holm([contrast["centred"]["dp"].get("p", 1.0) for contrast in primary])
    found = []
    for contrast, p in zip(primary, adjusted, strict=True):
        gap, accuracy = (
            contrast["centred"][metric].get("strategy") for metric in ("dp", "accuracy")
        )
        if gap is None:
            verdict = "not judged, under three sets do not show a strategy"
        elif gap[1] < 0 and p < 0.05 and accuracy[0] >= -MARGIN:
            verdict = f"support (Holm p {p:.2g})"
        elif contrast["second"] == "zero" and (
            gap[0] > -MARGIN or accuracy[1] < -MARGIN
        ):
            verdict = f"refuted (Holm p {p:.2g})"
        else:
            verdict = f"these rows do not settle it (Holm p {p:.2g})"
        found.append({"against": contrast["second"], "verdict": verdict})
    return found


def surrogate_scores(experiment: str, arms: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The scores of the surrogate's forms (SIMULATED): the same rows, the same examples."""
    planned = dict.fromkeys([*arms, *arms_of(experiment)])
    found = {}
    for form in FORMS:
        job = prepared(experiment, f"surrogate:{form}", list(planned), Client())
        chosen = tuple(arm for arm in job.plan.arms if arm.name in arms)
        saved = {
            arm.source: job.plan.saved[arm.source]
            for arm in chosen
            if arm.source in job.plan.saved
        }
        job = replace(job, plan=replace(job.plan, arms=chosen, saved=saved))
        with tempfile.TemporaryDirectory() as scratch:
            answers = list(
                RunFolder(job.run(Path(scratch) / "run").folder).read_answers()
            )
        found[form] = scores(read_experiment(answers, arms))
    return found


def recorded_contrasts() -> list[dict[str, Any]]:
    """DP gap and accuracy of recorded GPT-4 (DecodingTrust) and of the paper's, as differences
    of arms.
    """
    known = pd.read_csv(RESULTS / "paper" / "llm.csv").query(
        "source == 'recorded answers'"
    )
    recorded = known.query("model == 'gpt-4-0314' and base_parity == 0").set_index(
        "arm"
    )
    paper = published("llm").query("model == 'GPT-4'").set_index("arm")
    paper["accuracy"] /= 100
    return [
        {"source": source, "first": first, "second": second}
        | {
            metric: float(table[metric][first] - table[metric][second])
            for metric in ("dp", "accuracy")
        }
        for source, table in (("recorded", recorded), ("paper", paper))
        for first, second in CONTRASTS
        if {first, second} <= set(table.index)
    ]


def page(content: Mapping[str, Any]) -> str:
    """The page: what was asked, the verdicts, the scores, and the surrogate
    beside them.
    """
    blocks = [_HEAD]
    for name, found in content["experiments"].items():
        experiment = EXPERIMENTS[name]
        tables = METRICS if name == "A" else ("centred", "ranking")
        blocks += [
            f"## Experiment {name}: Qwen2.5-Coder-{experiment.model.upper()}-Instruct, "
            f"{experiment.task.capitalize()}",
            *(
                _WHICH[part]
                for part in dict.fromkeys((name[0], name))
                if part in _WHICH
            ),
            f"{found['questions']:,} questions, in {found['seconds'] / 3600:.1f} hours. "
            f"Arms: {', '.join(found['arms'])}. "
            f"Gaps: {found['groups'][1]} − {found['groups'][0]}.",
            *(
                f"`{arm}` is `{earlier}`: the same prompt, so it does not count as a set."
                for arm, earlier in found["equal"].items()
            ),
            *(
                f"**FWC against {_NAMES[judged['against']]}, centred DP gap: {judged['verdict']}.**"
                for judged in found["verdicts"]
            ),
            *[_NOTE] * (name == "A"),
            *(
                f"### {scoring.capitalize()}\n\n" + _table(found, scoring)
                for scoring in tables
            ),
            *[_calibration(found)] * (name == "A"),
        ]
    blocks += [_afterwards(content["experiments"]), _SURROGATE]
    for name, simulated in (("A", content["surrogate"]), ("B", content["surrogate_b"])):
        blocks.append(
            _side_by_side(content["experiments"][name], simulated, content["recorded"])
        )
    return "\n\n".join(blocks) + "\n"


_NAMES = {"zero": "zero-shot", "balanced": "balanced examples", "fwc": "FWC"}
_NAMES |= {
    "shuffled": "FWC, weights shuffled",
    "random": "random examples",
    "kmedoids": "k-medoids",
}
_NAMES |= {"flipped": "random, labels flipped to parity"}
_WHICH = {
    "B": "What of FWC matters, on 100 rows of A? Zero-shot, balanced and FWC are A's answers about "
    "them.",
    "C": "100 rows as they fall, 50 of each group, weighted back to the groups' shares of the "
    "table, in the "
    "centre, too. Here perfect answers have the DP gap of the table itself.",
    "C-german": "All seeds of FWC choose the same 16 rows: one set is asked. Zero-shot the model "
    "ranks "
    "backwards: its AUC is below 0.5, so its *yes* means *no* more often than not.",
    "D": "The same rows and examples as A, asked of the smaller model.",
}
_HEAD = """\
# A real model: do FWC's examples make its answers fairer?

**This experiment cannot say.** Made by `python -m evals.real_model report` from the replies in
`evals/real_model/answers.csv`, by [a plan that was committed before the first
question](../real_model/plan.md). [A second plan](../real_model/counter/plan.md) asks what this one could
not.

* **Confounded.** FWC, its shuffled weights and k-medoids show a line and numbers about weights, the
  other arms do not; and FWC has 4 examples of 16 with *yes*, balanced examples 8. Where the arms differ,
  each may be why.
* **The DP gap rewards errors here.** Adult, 200 test rows at base parity 0.5: perfect answers have a DP
  gap of 0.50, so a lower gap is bought with errors. The *gap at equal labels* is added: the mean over
  the two labels of the second group's rate of *yes* minus the first's. Perfect answers have 0 in every
  design.
* **Few sets.** (…) is a 95 % t interval over rows and sets, and there is none under three sets. The
  percentile intervals of the plan were too narrow.

16 examples, temperature 0. Strangers packed the model's file; its sha256 was checked against the
recorded one, not against the maker's.

![Gap at equal labels and accuracy by strategy, centred](real-model.svg)"""
_NOTE = f"""\
(…) = 95 % interval of the strategy: other rows and other sets of examples; […] = these examples, other
rows alone ({DRAWS:,} bootstrap draws). Differences pair the rows.
No evidence on gaps: fewer than five answers of an arm differ from the rest."""
_AFTERWARDS = """\
## Found afterwards: FWC's examples rank rows better than none

No plan asked this. AUC of FWC − zero-shot, and its standard error over rows and sets. A and D share rows
and examples, so the pooled error is too small. Whether FWC's choice is why, or any examples, this does
not say."""
_SURROGATE = """\
## Does the surrogate react as a real model does?

The surrogate is a SIMULATION of GPT-4's recorded answers. Its forms are asked about the same rows with the
same examples, first of A, then of B. As answered, unless the column says centred. GPT-4 as recorded has 4
balanced examples, other rows in each arm and a base parity of 0; its standard error is up to 0.10. The
paper's rows are others, too, and it gives no intervals of differences. Where a form's value lies outside the
model's interval, it errs, and nothing follows from it."""


def _cell(
    entry: Mapping[str, Any], form: str, kinds: Sequence[str] = ("strategy", "examples")
) -> str:
    ends = {"strategy": "({} to {})", "examples": "[{} to {}]"}
    known = [kind for kind in kinds if kind in entry] or ["examples"]
    parts = [
        ends[kind].format(*(format(end, form) for end in entry[kind])) for kind in known
    ]
    return " ".join([format(entry["value"], form), *parts]).replace("-", "−")


def _form(metric: str) -> str:
    """How a value is written: gaps have a sign."""
    return "+.2f" if metric in ("gap", "dp") else ".2f"


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    table = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def _difference(contrast: Mapping[str, Any]) -> str:
    return f"{_NAMES[contrast['first']]} − {_NAMES[contrast['second']]}"


def _cell_of(
    found: Mapping[str, Any],
    contrast: Mapping[str, Any],
    scoring: str,
    metric: str,
    *kinds: str,
) -> str:
    """A difference; none of gaps where an arm's answers as given are no evidence."""
    known = [
        found["strategies"][contrast[side]]["evidence"] for side in ("first", "second")
    ]
    if scoring == "as answered" and metric != "accuracy" and not all(known):
        return "no evidence"
    return _cell(contrast[scoring][metric], "+.2f", kinds or ("strategy", "examples"))


def _table(found: Mapping[str, Any], scoring: str) -> str:
    lines = []
    told = "as answered" if found["verdicts"] else "centred"
    for name, entry in found["strategies"].items():
        title = f"{_NAMES[name]} ({entry['sets']} set{'s' * (entry['sets'] > 1)}"
        if (
            scoring == told
        ):  # where there is no table of the answers as given, beside the centred ones
            title += (
                f", yes to {', '.join(map(str, entry['yes']))} of {found['rows']} rows"
            )
            title += "; no evidence" * (not entry["evidence"])
        cells = (
            _cell(entry[scoring][metric], _form(metric)) for metric in METRICS[scoring]
        )
        lines.append([f"{title})", *cells])
    lines += [
        [
            _difference(contrast),
            *(
                _cell_of(found, contrast, scoring, metric)
                for metric in METRICS[scoring]
            ),
        ]
        for contrast in found["contrasts"]
    ]
    return _markdown(["", *(_TITLES[metric] for metric in METRICS[scoring])], lines)


def _calibration(found: Mapping[str, Any]) -> str:
    lines = [
        [e["arm"], *(f"{v:.2f}" for v in e["calibration_error"].values())]
        for e in found["calibration"]
    ]
    head = "calibration error (ten bins; without interval, for it is biased upwards)"
    return _markdown([head, *found["calibration"][0]["calibration_error"]], lines)


def _afterwards(experiments: Mapping[str, Any]) -> str:
    """AUC of FWC minus zero-shot in every experiment that has both, and pooled by inverse
    variance.
    """
    found = {
        name: contrast["ranking"]["auc"]
        for name, experiment in experiments.items()
        for contrast in experiment.get("contrasts", ())
        if (contrast["first"], contrast["second"]) == ("fwc", "zero") and name != "B"
    }
    weights = np.array([entry["error"] ** -2 for entry in found.values()])
    values = np.array([entry["value"] for entry in found.values()])
    pooled = float(weights @ values / weights.sum()), float(weights.sum() ** -0.5)
    rows = [(name, entry["value"], entry["error"]) for name, entry in found.items()]
    lines = [
        [name, f"{value:+.3f} ± {error:.3f}"]
        for name, value, error in [*rows, ("pooled", *pooled)]
    ]
    return (
        _AFTERWARDS + "\n\n" + _markdown(["experiment", "AUC, FWC − zero-shot"], lines)
    )


def _side_by_side(
    real: Mapping[str, Any],
    simulated: Mapping[str, Any],
    recorded: Sequence[Mapping[str, Any]],
) -> str:
    columns = {"1.5B, centred": (real, "centred"), "1.5B": (real, "as answered")}
    columns |= {
        f"{form}, simulated": (found, "as answered")
        for form, found in simulated.items()
    }
    others = {(e["source"], e["first"], e["second"]): e for e in recorded}
    lines = []
    for number, contrast in enumerate(real["contrasts"]):
        for metric in ("gap", "dp", "accuracy"):
            known = [
                others.get((s, contrast["first"], contrast["second"]))
                for s in ("recorded", "paper")
            ]
            lines.append(
                [
                    f"{_TITLES[metric]}, {_difference(contrast)}",
                    *(
                        _cell_of(f, f["contrasts"][number], s, metric, "strategy")
                        for f, s in columns.values()
                    ),
                    *(_known(entry, metric) for entry in known),
                ]
            )
    return _markdown(["", *columns, "GPT-4, recorded", "GPT-4, the paper"], lines)


def _known(entry: Mapping[str, Any] | None, metric: str) -> str:
    if entry and metric in entry:
        return f"{entry[metric]:+.2f}".replace("-", "−")
    return "–"


def picture(found: Mapping[str, Any], path: Path) -> None:
    """Draw the centred gap at equal labels and accuracy of each strategy with its interval."""
    names = list(found["strategies"])
    title = "Qwen2.5-Coder-1.5B-Instruct on Adult, centred: value, 95 % interval"
    with panels([title], [3.6, 3.6], [1.9]) as (figure, drawn):
        for panel, metric in zip(drawn, ("gap", "accuracy"), strict=True):
            for line, name in enumerate(names):
                entry = found["strategies"][name]["centred"][metric]
                panel.plot(
                    entry.get("strategy", entry["examples"]),
                    [line, line],
                    color=COLOURS[line],
                    linewidth=2,
                )
                panel.plot([entry["value"]], [line], MARKERS[line], color=COLOURS[line])
            if metric == "gap":
                panel.axvline(
                    0.0,
                    color=SOFT,
                    linestyle="--",
                    linewidth=1,
                    label="perfect answers",
                )
                panel.legend(frameon=False, fontsize=7)
            panel.set_xlabel(_TITLES[metric])
            name_lines(panel, [_NAMES[name] for name in names])
        save(figure, path)
