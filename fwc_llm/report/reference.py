"""What the report takes from the table itself: a logistic regression beside the arms, and a map of the rows.

The run's folder does not hold the table, so this needs the data; without it the report says what is missing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.coreset.problem.encoding import Encoder, frequent, one_hot
from fwc_llm.errors import FwcError
from fwc_llm.metrics.counts import METRICS, Floats, count_cells, overall
from fwc_llm.metrics.logistic import fit_logistic, logistic_probability
from fwc_llm.report.read import Run
from fwc_llm.shots.examples import features_frame

if TYPE_CHECKING:
    import pandas as pd
    from scipy import sparse

    from fwc_llm.shots.base import Shots
    from fwc_llm.tasks import Task

_ROWS_ON_MAP = 500
_FARTHEST = 3.0


def table_statistics(run: Run, task: "Task") -> dict[str, Any]:
    """Return `context` rows (logistic regressions) and the `map` of the table with each arm's examples.

    Raises `FwcError` when the data is missing or is not the table that the run was made with.
    """
    from fwc_llm.metrics.statistics import plain

    if task.fingerprint != run.described.get("fingerprint"):
        raise FwcError("the data found here is not the table that the run was made with")
    table = task.including(run.answers[run.arms[0]].row.tolist())
    features = features_frame(task, table, protected=True)
    encoder = Encoder.fit(features)[0]
    found: dict[str, Any] = plain(
        {
            "context": [
                *_from_examples(run, task, features, encoder),
                _from_pool(run, task, features, encoder),
            ],
            "map": _map(run, task),
        }
    )
    return found


def _from_examples(
    run: Run, task: "Task", features: "pd.DataFrame", encoder: Encoder
) -> list[dict[str, Any]]:
    """A logistic regression on each arm's own examples, with their weights, answering the same test rows."""
    rows = []
    for arm in run.arms:
        shots, a = run.shots(arm), run.answers[arm]
        if not shots or any(not one.examples for one in shots.values()):
            continue
        answers = np.full(len(a), np.nan)
        for repeat, one in shots.items():
            here = a.repeat == repeat
            labels = np.array([example.label == "yes" for example in one.examples], dtype=float)
            weights = np.array(
                [1.0 if example.weight is None else example.weight for example in one.examples]
            )
            if len(set(labels.tolist())) < 2:
                answers[here] = labels[0]
                continue
            chosen = one_hot(encoder, _example_features(task, one, protected=True))
            used = frequent(chosen)
            beta = fit_logistic(chosen[:, used], labels, weights)
            test = one_hot(encoder, _rows(features, a.row[here].tolist()))[:, used]
            answers[here] = logistic_probability(beta, test) >= 0.5
        rows.append(_measured(run, f"logistic regression, {arm}'s examples", answers))
    return rows


def _from_pool(run: Run, task: "Task", features: "pd.DataFrame", encoder: Encoder) -> dict[str, Any]:
    """A logistic regression on every row of the pool but the test rows, fitted once where they never meet."""
    a = run.answers[run.arms[0]]
    pool = task.pool()
    labels = task.labels(pool)
    encoded = one_hot(encoder, features.loc[pool.index] if len(features) > len(pool) else features)
    used = frequent(encoded)
    encoded = encoded[:, used]
    answers = np.full(len(a), np.nan)
    beta: Floats | None = None
    for repeat in np.unique(a.repeat):
        here = a.repeat == repeat
        training = ~pool.index.isin(a.row[here].tolist())
        if beta is None or not training.all():
            beta = fit_logistic(encoded[training], labels[training])
        answers[here] = (
            logistic_probability(beta, one_hot(encoder, _rows(features, a.row[here].tolist()))[:, used])
            >= 0.5
        )
    return _measured(run, "logistic regression, all training rows", answers)


def _measured(run: Run, name: str, answers: Floats) -> dict[str, Any]:
    a = run.answers[run.arms[0]]
    found = overall(count_cells(answers, a.label, a.group, run.groups, a.repeat).counts)
    return {"name": name, **{metric: float(found[metric][0]) for metric in METRICS}}


def _rows(features: "pd.DataFrame", ids: Sequence[str]) -> "pd.DataFrame":
    try:
        return features.loc[list(ids)]
    except KeyError:
        raise FwcError("the data found here lacks rows that the run asked about") from None


def _example_features(task: "Task", shots: "Shots", protected: bool = False) -> "pd.DataFrame":
    """The examples' own values as a frame of features: a saved file may hold rows that the table lacks."""
    import pandas as pd

    try:
        return features_frame(task, pd.DataFrame([dict(e.values) for e in shots.examples]), protected)
    except KeyError as error:
        raise FwcError(f"the examples lack the column {error}") from None


def _near(encoded: "sparse.csr_array") -> "sparse.csr_array":
    encoded.data = encoded.data.clip(-_FARTHEST, _FARTHEST)
    return encoded


def _map(run: Run, task: "Task") -> dict[str, Any]:
    """The first two principal components of the features, over the pool; every arm's examples on them.

    A number farther than `_FARTHEST` standard deviations from the mean is drawn at that distance: a few
    fortunes would otherwise be all that the map shows.
    """
    pool = task.pool()
    features = features_frame(task, pool)
    encoder = Encoder.fit(features)[0]
    encoded = one_hot(encoder, features)
    used = frequent(encoded)
    encoded = _near(encoded[:, used])
    centre = np.asarray(encoded.mean(axis=0)).ravel()
    moments = (encoded.T @ encoded).toarray() / len(features)
    variances, directions = np.linalg.eigh(moments - np.outer(centre, centre))
    second = [(0, 0), (0, max(0, 2 - len(variances)))]  # one column spreads in one direction
    axes = np.pad(directions[:, ::-1][:, :2], second)
    axes = axes * np.where(np.abs(axes).max(0) == axes.max(0), 1.0, -1.0)  # a direction has no sign: fix one
    explained = np.pad(variances[::-1][:2], second[1]) / (variances.sum() or 1.0)
    chosen = np.sort(np.random.default_rng(0).choice(len(pool), min(_ROWS_ON_MAP, len(pool)), replace=False))
    places = encoded[chosen] @ axes - centre @ axes
    labels, groups = task.labels(pool), task.sensitive(pool)
    examples = {}
    for arm in run.arms:
        shots = run.shots(arm)
        if shots and shots[min(shots)].examples:
            one = shots[min(shots)]
            where = _near(one_hot(encoder, _example_features(task, one))[:, used]) @ axes - centre @ axes
            examples[arm] = [
                {
                    "x": float(x),
                    "y": float(y),
                    "label": example.label,
                    "group": " & ".join(str(example.values[name]) for name in task.protected),
                    "weight": example.weight,
                }
                for example, (x, y) in zip(one.examples, where, strict=True)
            ]
    return {
        "explained": explained.tolist(),
        "n": len(pool),
        "rows": {
            "x": places[:, 0].tolist(),
            "y": places[:, 1].tolist(),
            "label": ["yes" if label else "no" for label in labels[chosen].tolist()],
            "group": groups[chosen].tolist(),
        },
        "examples": examples,
    }
