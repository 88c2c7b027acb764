"""Fit the surrogate to recorded answers of gpt-4-0314, and measure the fit by cross-validation.

    python -m evals.fit_surrogate        # needs FWC_LLM_DATA with adult/ and gpt4-answers/

writes fwc_llm/models/surrogate/surrogate.json (the coefficients) and
evals/results/surrogate.{json,md} (the figures).

Two logistic regressions, both with a ridge. The first models prior knowledge: income from the
features of a row, on adult.data. The second is fitted to GPT-4's answers: 400 zero-shot, 200 with 4
and 200 with 16 balanced examples, 40 with 30 examples as they fall. One model has all of them, so
that zero-shot and few-shot answers inform each other. The ridge spares the columns of the examples:
there are three of them beside eighty features, their spread is small, and a common ridge shrinks
the effect of the examples away.

Folds are drawn over distinct rows: all answers about a row are in one fold. To show that the
examples matter, the held-out rows are asked three times: with their own examples, with what the
examples say replaced by its mean (`RESPONSE`: "none"), and with the examples of another
conversation of the same length ("another row's").

Which terms of the examples are right, few recordings can tell. So `TERMS` of them are fitted side
by side without one recording and without the rows in it, and predict it. Three of these forms are
packaged, first the one with the least log-loss on the recordings with examples: it is the default.
"""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from evals.record import command_line, markdown, write
from fwc_llm.models.surrogate.model import (
    CONTEXT,
    FORMS,
    Coefficients,
    context,
    feature_names,
    vector,
)
from fwc_llm.models.surrogate.prompt_reader import (
    CATEGORICAL,
    NUMERIC,
    Person,
    Reading,
    read,
)
from fwc_llm.tasks import load_task

Floats = NDArray[np.float64]

RECORDED = {
    0: ("gpt-4-0314_adult_0_200.jsonl", "gpt-4-0314_adult_0_200_8.jsonl"),
    4: ("gpt-4-0314_adult_4_200.jsonl",),
    16: ("gpt-4-0314_adult_16_200.jsonl",),
    30: ("gpt-4-0314_adult_30.jsonl",),
}
# Whose examples a held-out row is asked with.
RESPONSE = ("its own", "none", "another row's")
COMMAND = "python -m evals.fit_surrogate"
COEFFICIENTS = (
    Path(__file__).resolve().parents[1]
    / "fwc_llm"
    / "models"
    / "surrogate"
    / "surrogate.json"
)
REPEATS = 10
FOLDS = 10
# Ridge strengths (scikit-learn's C) tried; chosen within the training folds alone.
STRENGTHS = (0.03, 0.1, 0.3)
WORLD_STRENGTH = 0.1
# The log-odds are a single but important feature: its penalty is smaller than the others', by this
# factor.
LOG_ODDS_BOOST = np.sqrt(8.0)
# The columns of the examples are as good as free: their penalty is smaller by the square of this
# factor.
CONTEXT_BOOST = 100.0
# Terms of the examples beside their presence, by form. The rates of yes are those among the
# examples of the person's own sex and of the other one, from −1 to 1; 0 where there are none.
TERMS = {
    "surprise+rates": ("surprise", "own", "other"),
    "rates": ("own", "other"),
    "vote+surprise": ("vote", "surprise"),
    "vote+surprise+rates": ("vote", "surprise", "own", "other"),
    "vote": ("vote",),
    "none": (),
}
COMPOSITION = {
    0: "no examples",
    4: "1 of each sex and label",
    16: "4 of each sex and label",
    30: "as they fall",
}
_SAID = slice(1 - len(CONTEXT), None)  # the columns of what the examples say
# Adult's columns by the words that prompts use for them.
COLUMNS = {
    "age": "age",
    "highest education level": "education-num",
    "capital gain": "capital-gain",
    "capital loss": "capital-loss",
    "hours per week": "hours-per-week",
    "workclass": "workclass",
    "education": "education",
    "marital status": "marital-status",
    "occupation": "occupation",
    "relationship": "relationship",
    "race": "race",
    "sex": "sex",
    "native country": "native-country",
}


@dataclass(frozen=True)
class Recorded:
    """GPT-4's answers (n,) as 0/1, the prompts, and the distinct row of each."""

    readings: tuple[Reading, ...]
    answers: NDArray[np.int64]
    shots: NDArray[np.int64]
    rows: NDArray[np.int64]


def load_recorded(folder: Path) -> Recorded:
    """Read the recorded conversations."""
    readings = []
    answers = []
    shots = []
    for m, names in RECORDED.items():
        for name in names:
            for messages, response in json.loads(
                (folder / name).read_text(encoding="utf-8")
            ):
                readings.append(read(messages))
                answers.append(
                    int(response["choices"][0]["message"]["content"].lower() == "yes")
                )
                shots.append(m)
    known: dict[Person, int] = {}
    rows = [known.setdefault(reading.person, len(known)) for reading in readings]
    return Recorded(tuple(readings), np.array(answers), np.array(shots), np.array(rows))


def fit_world(data_dir: Path) -> tuple[Floats, float]:
    """Log-odds of income from the features of a row, on adult.data: coefficients (p,) and
    intercept.
    """
    task = load_task("adult", data_dir)
    pool = task.pool()
    numbers = pool[[COLUMNS[name] for name in NUMERIC]].to_numpy(float)
    words = pool[[COLUMNS[name] for name in CATEGORICAL]].to_numpy(str)
    people = [
        Person(tuple(map(float, n)), tuple(map(str, w)))
        for n, w in zip(numbers, words, strict=True)
    ]
    X = np.array([vector(person) for person in people])
    return _ridge(X, task.labels(pool), WORLD_STRENGTH, np.ones(X.shape[1]))


def design(recorded: Recorded, world: Coefficients) -> Floats:
    """One row per answer (n, p + 1 + 5): features, log-odds, and the terms of the examples."""
    return np.array(
        [
            np.r_[vector(r.person), world.log_odds(r.person), context(r, world)]
            for r in recorded.readings
        ]
    )


def without_effect(X: Floats, recorded: Recorded) -> Floats:
    """`X` with what the examples say at its means over the conversations of the same length."""
    flat = X.copy()
    for m in RECORDED:
        flat[recorded.shots == m, _SAID] = X[recorded.shots == m, _SAID].mean(axis=0)
    return flat


def with_others(recorded: Recorded, seed: int) -> Recorded:
    """Each row with the examples of another conversation of the same length."""
    readings = list(recorded.readings)
    for m in RECORDED:
        turn = np.random.default_rng(seed).permutation(
            np.flatnonzero(recorded.shots == m)
        )
        for here, there in zip(turn, np.roll(turn, 1), strict=True):
            other = recorded.readings[there]
            readings[here] = replace(
                readings[here], examples=other.examples, answers=other.answers
            )
    return replace(recorded, readings=tuple(readings))


def cross_validate(
    X: Floats,
    recorded: Recorded,
    world: Coefficients,
    repeats: int = REPEATS,
    strengths: tuple[float, ...] = STRENGTHS,
) -> dict[str, Floats]:
    """Held-out probabilities of yes (repeats, n) by whose examples are shown.

    The ridge is chosen within each training part, which always has the rows' own examples.
    """
    held_out = {whose: np.empty((repeats, len(X))) for whose in RESPONSE}
    flat = without_effect(X, recorded)
    for repeat in range(repeats):
        designs = X, flat, design(with_others(recorded, repeat), world)
        asked = {
            whose: in_form(FORMS[0], D)
            for whose, D in zip(RESPONSE, designs, strict=True)
        }
        own = asked[RESPONSE[0]]
        fold = _folds(recorded.rows, repeat)
        for k in range(FOLDS):
            train = fold != k
            strength = _choose(
                own[train],
                recorded.answers[train],
                recorded.rows[train],
                repeat,
                strengths,
            )
            weights, intercept = _ridge(
                own[train], recorded.answers[train], strength, _boost(own)
            )
            for whose, rows in asked.items():
                score = rows[fold == k] @ weights + intercept
                held_out[whose][repeat, fold == k] = 1 / (1 + np.exp(-score))
    return held_out


def figures(held_out: Floats, recorded: Recorded) -> list[dict[str, Any]]:
    """Agreement, AUC and demographic parity by number of examples and group, as means over
    repeats.
    """
    sex = np.array([reading.person.word("sex") for reading in recorded.readings])
    lines = []
    for m in RECORDED:
        for group in ("all", "Female", "Male"):
            part = (recorded.shots == m) & ((sex == group) | (group == "all"))
            truth = recorded.answers[part]
            agreement = [np.mean((p[part] > 0.5) == truth) for p in held_out]
            line = {
                "examples": m,
                "group": group,
                "answers": int(part.sum()),
                "agreement": float(np.mean(agreement)),
                "agreement_sd": float(np.std(agreement)),
                "auc": float(
                    np.mean([roc_auc_score(truth, p[part]) for p in held_out])
                ),
                "rate_gpt4": float(truth.mean()),
                "rate_surrogate": float(
                    np.mean([(p[part] > 0.5).mean() for p in held_out])
                ),
            }
            lines.append(line)
    return lines


def parity(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Demographic parity difference (men minus women) of GPT-4 and the surrogate, on the same
    rows.
    """
    found = []
    for m in RECORDED:
        rate = {line["group"]: line for line in lines if line["examples"] == m}
        gap = {
            who: rate["Male"][f"rate_{who}"] - rate["Female"][f"rate_{who}"]
            for who in ("gpt4", "surrogate")
        }
        found.append({"examples": m, **gap})
    return found


def response(held_out: dict[str, Floats], recorded: Recorded) -> list[dict[str, Any]]:
    """Agreement on the answers with examples, by whose examples are shown: any number, then
    each.
    """
    lines: list[dict[str, Any]] = []
    for m in (None, *(m for m in RECORDED if m)):
        if m is None:
            part = recorded.shots > 0
        else:
            part = recorded.shots == m
        same = {
            whose: float(np.mean((p[:, part] > 0.5) == recorded.answers[part]))
            for whose, p in held_out.items()
        }
        lines.append({"examples": m, "answers": int(part.sum()), "agreement": same})
    return lines


def in_form(form: str, X: Floats) -> Floats:
    """The columns of `design` up to the examples' presence, and the terms of a form."""
    first = X.shape[1] - len(CONTEXT)
    return np.column_stack(
        [
            X[:, : first + 1],
            *(X[:, first + CONTEXT.index(term)] for term in TERMS[form]),
        ]
    )


def left_out(X: Floats, recorded: Recorded) -> list[dict[str, Any]]:
    """Each form's prediction of each recording, fitted without it and without every answer about
    its rows.

    `excess` is its log-loss less the first form's on the same answers, with the standard error.
    """
    male = np.array(
        [reading.person.word("sex") == "Male" for reading in recorded.readings]
    )
    lines: list[dict[str, Any]] = []
    for m in RECORDED:
        test = recorded.shots == m
        first = np.zeros(0)
        train = ~np.isin(recorded.rows, recorded.rows[test])
        y = recorded.answers[test]
        men = male[test]
        for form in TERMS:
            Z = in_form(form, X)
            strength = _choose(
                Z[train],
                recorded.answers[train],
                recorded.rows[train],
                REPEATS,
                STRENGTHS,
            )
            weights, intercept = _ridge(
                Z[train], recorded.answers[train], strength, _boost(Z)
            )
            score = Z[test] @ weights + intercept
            loss = np.logaddexp(0, np.where(y == 1, -score, score))
            yes = score > 0
            first = first if len(first) else loss
            line = {
                "examples": m,
                "form": form,
                "answers": len(y),
                "agreement": float(np.mean(yes == y)),
                "log_loss": float(loss.mean()),
                "excess": float((loss - first).mean()),
                "excess_se": float((loss - first).std(ddof=1) / np.sqrt(len(y))),
                "gap_error": float(
                    yes[men].mean() - yes[~men].mean() - y[men].mean() + y[~men].mean()
                ),
            }
            lines.append(line)
    return lines


def reversal(
    X: Floats, recorded: Recorded, world: Coefficients
) -> list[dict[str, Any]]:
    """Each form's gap (men − women) with 8 women yes and 8 men no as examples, and with the
    reverse.

    Fitted to all recordings; asked about the people of the zero-shot recordings, with examples of
    the others.
    """
    shown = {
        pair
        for reading in recorded.readings
        for pair in zip(reading.examples, reading.answers, strict=True)
    }
    asked = [
        reading
        for reading, m in zip(recorded.readings, recorded.shots, strict=True)
        if m == 0
    ]
    male = np.array([reading.person.word("sex") == "Male" for reading in asked])
    designs = []
    for of_women in (1, 0):
        wanted = (("Female", of_women), ("Male", 1 - of_women))
        cells = [
            sorted(
                (p for p in shown if (p[0].word("sex"), int(p[1])) == cell), key=repr
            )
            for cell in wanted
        ]
        people, answers = zip(
            *(pair for cell in cells for pair in cell[:8]), strict=True
        )
        readings = tuple(
            replace(reading, examples=people, answers=answers) for reading in asked
        )
        other = replace(recorded, readings=readings)
        designs.append(design(other, world))
    lines = []
    for form in TERMS:
        Z = in_form(form, X)
        strength = _choose(Z, recorded.answers, recorded.rows, REPEATS, STRENGTHS)
        weights, intercept = _ridge(Z, recorded.answers, strength, _boost(Z))
        yes = [in_form(form, D) @ weights + intercept > 0 for D in designs]
        gaps = [float(each[male].mean() - each[~male].mean()) for each in yes]
        lines.append({"form": form, "women_yes": gaps[0], "men_yes": gaps[1]})
    return lines


def fit(data_dir: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The content of surrogate.json, and the report on the fit."""
    recorded = load_recorded(data_dir / "gpt4-answers")
    world, world_intercept = fit_world(data_dir)
    names = (*feature_names(), "log-odds")
    knowing = Coefficients(
        world, world_intercept, np.zeros(len(names)), np.zeros(len(CONTEXT)), 0.0
    )
    X = design(recorded, knowing)
    held_out = cross_validate(X, recorded, knowing)
    lines = figures(held_out["its own"], recorded)
    forms = {}
    ridge = {}
    for form in FORMS:
        Z = in_form(form, X)
        ridge[form] = _choose(Z, recorded.answers, recorded.rows, REPEATS, STRENGTHS)
        weights, intercept = _ridge(Z, recorded.answers, ridge[form], _boost(Z))
        forms[form] = {
            "intercept": intercept,
            "prior": dict(zip(names, weights[: len(names)].tolist(), strict=True)),
            "context": dict(
                zip(
                    ("examples", *TERMS[form]),
                    weights[len(names) :].tolist(),
                    strict=True,
                )
            ),
        }
    coefficients = {
        "about": "A simulation of gpt-4-0314 on Adult rows, not a measurement of it: see "
        "evals/surrogate.md.",
        "fitted_by": COMMAND,
        "source": "DecodingTrust, recorded generations, CC BY-SA 4.0; UCI Adult, CC BY 4.0",
        "licence": "CC BY-SA 4.0",
        "world_intercept": world_intercept,
        "world": dict(zip(feature_names(), world.tolist(), strict=True)),
        "forms": forms,
    }
    report = {
        "command": COMMAND,
        "simulated": True,
        "repeats": REPEATS,
        "folds": FOLDS,
        "ridge": ridge[FORMS[0]],
        "held_out": lines,
        "response": response(held_out, recorded),
        "demographic_parity": parity(lines),
        "left_out": left_out(X, recorded),
        "reversal": reversal(X, recorded, knowing),
    }
    return coefficients, report


def main() -> None:
    """Fit, validate, write."""
    parser = command_line(__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("FWC_LLM_DATA"))
    data_dir = parser.parse_args().data_dir
    if data_dir is None:
        parser.error(
            "name the folder with adult/ and gpt4-answers/: --data-dir or FWC_LLM_DATA"
        )
    coefficients, report = fit(Path(data_dir))
    text = json.dumps(coefficients, indent=1, ensure_ascii=False) + "\n"
    COEFFICIENTS.write_text(text, encoding="utf-8")
    write("surrogate", report, page(report))
    print(page(report))


def page(report: dict[str, Any]) -> str:
    """The figures as a page."""
    held_out = [
        "examples",
        "group",
        "answers",
        "agreement",
        "AUC",
        "yes, GPT-4",
        "yes, surrogate",
    ]
    dp = ["examples", "DP of GPT-4 (men − women)", "DP of the surrogate, same rows"]
    left_out = [
        "left out",
        "form",
        "answers",
        "agreement",
        "log-loss",
        "excess",
        "error of DP",
    ]
    reversal = ["form", "women yes, men no", "women no, men yes", "difference"]
    return f"""# How well the surrogate imitates gpt-4-0314 (a simulation, not a measurement of GPT-4)

Made by `{report["command"]}`: {report["folds"]}-fold cross-validation over distinct rows, mean over
{report["repeats"]} divisions into folds (± standard deviation over them). *Agreement* is the share of
held-out recorded answers that the surrogate gives too.

{markdown(held_out, map(_held_out_line, report["held_out"]))}
Does it heed the examples? Agreement on the held-out answers with examples, by whose examples it is shown: the
row's own; none, which is to say with what they say replaced by its mean; or those of another conversation of
the same length.

{markdown(["examples", "answers", *RESPONSE], map(_response_line, report["response"]))}
{markdown(dp, map(_parity_line, report["demographic_parity"]))}
## Forms of the reaction to examples

Each is fitted without one recording and every answer about its rows, and predicts it. The package has
the first three; the first, its default, has the least log-loss on the recordings with examples. *Excess*
is log-loss above that form on the same answers (± standard error over answers, both fits as they are);
*error of DP* is simulated less recorded, men − women. The rates are 0 in all conversations but the 40 as
they fall: what is fitted to them rests on these 40.

{markdown(left_out, map(_left_out_line, report["left_out"]))}
Fitted to everything, and asked with compositions that no recording has: DP (men − women) with 8 women yes
and 8 men no, and with 8 women no and 8 men yes.

{markdown(reversal, map(_reversal_line, report["reversal"]))}"""


def _held_out_line(line: dict[str, Any]) -> list[Any]:
    agreement = f"{line['agreement']:.3f} ± {line['agreement_sd']:.3f}"
    numbers = [f"{line[name]:.3f}" for name in ("auc", "rate_gpt4", "rate_surrogate")]
    return [line["examples"], line["group"], line["answers"], agreement, *numbers]


def _response_line(line: dict[str, Any]) -> list[Any]:
    numbers = [f"{line['agreement'][whose]:.3f}" for whose in RESPONSE]
    return [line["examples"] or "any", line["answers"], *numbers]


def _parity_line(line: dict[str, Any]) -> list[Any]:
    return [line["examples"], f"{line['gpt4']:.3f}", f"{line['surrogate']:.3f}"]


def _left_out_line(line: dict[str, Any]) -> list[Any]:
    recording = f"{line['examples']}: {COMPOSITION[line['examples']]}"
    fit = [f"{line['agreement']:.3f}", f"{line['log_loss']:.3f}"]
    excess = f"{line['excess']:+.3f} ± {line['excess_se']:.3f}"
    return [
        recording,
        line["form"],
        line["answers"],
        *fit,
        excess,
        f"{line['gap_error']:+.3f}",
    ]


def _reversal_line(line: dict[str, Any]) -> list[Any]:
    women = line["women_yes"]
    men = line["men_yes"]
    return [line["form"], f"{women:.3f}", f"{men:.3f}", f"{women - men:+.3f}"]


def _boost(X: Floats) -> Floats:
    boost = np.ones(X.shape[1])
    boost[len(feature_names())] = LOG_ODDS_BOOST
    boost[len(feature_names()) + 1 :] = CONTEXT_BOOST
    return boost


def _ridge(
    X: Floats, y: NDArray[Any], strength: float, boost: Floats
) -> tuple[Floats, float]:
    """A logistic regression on standardised columns (each times `boost`), returned on the
    original scale.
    """
    mean = X.mean(axis=0)
    scale = X.std(axis=0)
    scale = np.where(scale > 0, scale, np.inf) / boost
    model = LogisticRegression(C=strength, solver="newton-cholesky", tol=1e-8).fit(
        (X - mean) / scale, y
    )
    weights = model.coef_[0] / scale
    return weights, float(model.intercept_[0] - weights @ mean)


def _choose(
    X: Floats,
    y: NDArray[np.int64],
    rows: NDArray[np.int64],
    seed: int,
    strengths: tuple[float, ...],
) -> float:
    """The ridge with the best log-likelihood in five folds of the training part."""
    if len(strengths) == 1:
        return strengths[0]
    fold = _folds(rows, 1000 + seed) % 5
    losses = []
    for strength in strengths:
        loss = 0.0
        for k in range(5):
            weights, intercept = _ridge(X[fold != k], y[fold != k], strength, _boost(X))
            score = X[fold == k] @ weights + intercept
            loss += float(
                np.logaddexp(0, np.where(y[fold == k] == 1, -score, score)).sum()
            )
        losses.append(loss)
    return strengths[int(np.argmin(losses))]


def _folds(rows: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A fold for every answer, the same for all answers about one row."""
    return (np.random.default_rng(seed).permutation(int(rows.max()) + 1) % FOLDS)[rows]


if __name__ == "__main__":
    main()
