"""Plain models of the table beside a run's answers: reference lines, regressions, and a map of the rows.

Reference lines are kept in the run's folder as reference.json. They are trained on rows of the pool alone: no
test row, and none that equals one (docs/statistics.md, "Reference lines"). Regressions and the map are made
for a report where the table is there.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fwc_llm.coreset.problem.encoding import Encoder, frequent, one_hot
from fwc_llm.errors import FwcError, StorageError
from fwc_llm.metrics.counts import METRICS, count_cells, overall
from fwc_llm.metrics.statistics import plain
from fwc_llm.models.baseline import BOOSTING, LOGISTIC, TableModel
from fwc_llm.report.read import Run, read_run
from fwc_llm.report.reference_statistics import Line, References
from fwc_llm.runs.folder import RunFolder
from fwc_llm.shots.examples import features_frame
from fwc_llm.untrusted import finite, whole

if TYPE_CHECKING:
    import pandas as pd
    from scipy import sparse

    from fwc_llm.shots.base import Shots
    from fwc_llm.tasks import Task

FILE_NAME = "reference.json"
FORMAT = "fwc-llm-reference/1"
LIMITS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, None)
_MOST_ROWS = 100_000  # that a model is trained on: more cost time and change nothing
_ONE_FIT = 0.9  # of the pool that must be left for one fit without the test rows of all repeats
_PARTS = 3  # of the training rows, for probabilities of rows that were not trained on
_ROWS_ON_MAP = 500
_FARTHEST = 3.0

Floats = npt.NDArray[np.float64]


def add_references(folders: Sequence[Path], task: "Task") -> None:
    """Make the lines of runs that asked the same questions, and keep them in each folder.

    A folder that cannot be written is left as it is. Raises `FwcError` for another table than the runs', and
    for a pool without rows to learn from.
    """
    content: dict[str, Any] | None = None
    for folder in folders:
        run = read_run(folder)
        if content is None or content["questions"] != _questions(run):
            content = make_references(run, task)
        with suppress(StorageError):
            RunFolder(folder).write_json(FILE_NAME, content)


def references_of(run: Run) -> References | None:
    """Return the lines that a run's folder keeps; None for none, `FwcError` where they are damaged."""
    path = run.folder / FILE_NAME
    if not path.is_file():
        return None
    content = RunFolder(run.folder).read_json(FILE_NAME)
    try:
        return as_references(content, run)
    except (KeyError, TypeError, ValueError) as error:
        raise FwcError(
            f"{path} is damaged, or not of these answers ({error}): remove it, or write it again with "
            "`fwc-llm report --reference`"
        ) from None


def as_references(content: Mapping[str, Any], run: Run) -> References:
    """Return the lines in the order of the run's questions; `ValueError` for what is not of this run."""
    if content["format"] != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    places = {(whole(repeat), str(row)): place for place, (repeat, row) in enumerate(content["questions"])}
    asked = [places.get((repeat, row), -1) for repeat, row in _questions(run)]
    if min(asked) < 0 or len(places) != len(asked):
        raise ValueError("it is about other rows")
    order = np.array(asked)
    lines = []
    for one in content["lines"]:
        answer = np.array(one["answer"])
        if answer.shape != order.shape or not np.isin(answer, (0, 1)).all():
            raise ValueError("a line is not of yes and no")
        if not isinstance(one["uses_protected"], bool) or not isinstance(one["by_group"], bool):
            raise ValueError("a line does not say what it uses")
        limit = None if one["limit"] is None else finite(one["limit"])
        said = str(one["line"]), str(one["model"])
        lines.append(
            Line(*said, answer[order].astype(np.float64), one["uses_protected"], one["by_group"], limit)
        )
    about = content["about"]
    return References(
        lines,
        {
            "trained_on": [int(about["trained_on"][0]), int(about["trained_on"][1])],
            "left_out": int(about["left_out"]),
            "one_fit": bool(about["one_fit"]),
            "protected": [str(name) for name in about["protected"]],
            "thresholds_on": str(about["thresholds_on"]),
            "missing": str(about["missing"]),
        },
    )


def make_references(run: Run, task: "Task") -> dict[str, Any]:
    """Return the content of reference.json. The same run and table give the same content."""
    _check_table(run, task)
    models = (LOGISTIC, BOOSTING)
    named = ", ".join(task.protected)
    asked = run.answers[run.arms[0]]
    fits = list(_fits(run, task))
    lines: list[dict[str, Any]] = [
        {
            "line": f"{model}, {'with' if protected else 'without'} {named}",
            "model": model, "uses_protected": protected, "by_group": False, "limit": None,
        }
        for model in models for protected in (True, False)
    ]  # fmt: skip
    limits = LIMITS if len(run.groups) > 1 else ()
    lines += [
        {
            "line": f"thresholds per group, {'no limit' if limit is None else f'gap ≤ {limit:g}'}",
            "model": LOGISTIC, "uses_protected": True, "by_group": True, "limit": limit,
        }
        for limit in limits
    ]  # fmt: skip
    answers = np.zeros((len(lines), len(asked)), dtype=np.int64)
    for one in fits:
        p = [one.probability(model, protected) for model in models for protected in (True, False)]
        answers[:, one.here] = [*(one_p >= 0.5 for one_p in p), *one.by_group(p[0], run, limits)]
    return {
        "format": FORMAT,
        "about": {
            "trained_on": [min(one.size for one in fits), max(one.size for one in fits)],
            "left_out": max(one.left_out for one in fits),
            "one_fit": len(fits) == 1,
            "protected": list(task.protected),
            "thresholds_on": lines[0]["line"] if limits else "",
            "missing": "",
        },
        "questions": _questions(run),
        "lines": [line | {"answer": answer.tolist()} for line, answer in zip(lines, answers, strict=True)],
    }


def _questions(run: Run) -> list[list[Any]]:
    asked = run.answers[run.arms[0]]
    return [list(pair) for pair in zip(asked.repeat.tolist(), asked.row.tolist(), strict=True)]


@dataclass(frozen=True)
class _Fit:
    """Training rows, and the questions (mask `here`) that models of them answer."""

    task: "Task"
    rows: "pd.DataFrame"
    asked: "pd.DataFrame"
    here: npt.NDArray[np.bool_]
    left_out: int

    @property
    def size(self) -> int:
        return len(self.rows)

    def probability(self, model: str, protected: bool) -> Floats:
        """P(yes) of the questions."""
        return self._probability(model, protected, self.rows, self.asked)

    def by_group(
        self, test: Floats, run: Run, limits: Sequence[float | None]
    ) -> Iterator[npt.NDArray[np.bool_]]:
        """The answers by thresholds per group on P(yes) `test` of a logistic regression with all features.

        They are chosen on training rows that the regression in question did not learn from.
        """
        from fwc_llm.report.group_thresholds import design_weights, group_thresholds

        if not limits:
            return
        member = {name: place for place, name in enumerate(run.groups)}
        groups = np.array([member.get(str(name), -1) for name in self.task.sensitive(self.rows)])
        labels = self.task.labels(self.rows).astype(np.int64)
        cell = 2 * groups + labels
        order = np.random.default_rng(0).permutation(self.size)
        order = order[np.argsort(cell[order], kind="stable")]
        part = np.empty(self.size, dtype=np.int64)
        part[order] = np.arange(self.size) % _PARTS
        p = np.full(self.size, np.nan)
        for number in range(_PARTS):
            held = part == number
            if held.any() and not held.all():
                p[held] = self._probability(LOGISTIC, True, self.rows[~held], self.rows[held])
        known = (groups >= 0) & ~np.isnan(p)
        weights = design_weights(
            labels[known], groups[known], self._shares(run, groups[known], labels[known])
        )
        thresholds = group_thresholds(p[known], labels[known], groups[known], weights, limits)
        level = np.array([member[str(name)] for name in self.task.sensitive(self.asked)])
        for one in thresholds:
            yield test >= one[level]

    def _shares(self, run: Run, groups: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Floats:
        """What share of the test rows has each group and label: as the design says, else as in the pool."""
        shares = np.zeros((len(run.groups), 2))
        if run.described["settings"].get("base_parity") is None:
            np.add.at(shares, (groups, labels), 1.0)
        else:
            asked = run.answers[run.arms[0]]
            for place, name in enumerate(run.groups):
                of = asked.label[asked.group == name]
                shares[place] = (of == 0).sum(), (of == 1).sum()
        return np.asarray(shares / max(shares.sum(), 1.0), np.float64)

    def _probability(
        self, model: str, protected: bool, rows: "pd.DataFrame", asked: "pd.DataFrame"
    ) -> Floats:
        fitted = TableModel(model, features_frame(self.task, rows, protected), self.task.labels(rows))
        return fitted.probabilities(features_frame(self.task, asked, protected))


def _fits(run: Run, task: "Task") -> Iterator[_Fit]:
    """One fit for all repeats where the pool can spare the test rows of all; else one in each repeat."""
    from fwc_llm.runs.row_matching import row_values

    asked = run.answers[run.arms[0]]
    pool = task.pool()
    table = task.including(asked.row.tolist())
    test = _rows(table, asked.row.tolist())
    values, equal = row_values(task, test), row_values(task, pool)

    def fit(here: npt.NDArray[np.bool_]) -> _Fit:
        taken = {values[place] for place in np.flatnonzero(here)}
        free = np.fromiter((key not in taken for key in equal), dtype=bool, count=len(equal))
        rows = pool[free]
        if not len(rows):
            raise FwcError("there are no reference lines: every row of the pool is a test row, or equals one")
        if len(rows) > _MOST_ROWS:
            chosen = np.random.default_rng(0).choice(len(rows), _MOST_ROWS, replace=False)
            rows = rows.iloc[np.sort(chosen)]
        return _Fit(task, rows, test[here], here, int((~free).sum()))

    everything = set(values)
    if sum(key not in everything for key in equal) >= _ONE_FIT * len(equal):
        yield fit(np.ones(len(asked), dtype=bool))
        return
    for repeat in np.unique(asked.repeat):
        yield fit(asked.repeat == repeat)


def _check_table(run: Run, task: "Task") -> None:
    if task.fingerprint != run.described.get("fingerprint"):
        raise FwcError("the data found here is not the table that the run was made with")


def table_statistics(run: Run, task: "Task") -> dict[str, Any]:
    """Return `context` rows (logistic regressions) and the `map` of the table with each arm's examples.

    Raises `FwcError` when the data is missing or is not the table that the run was made with.
    """
    _check_table(run, task)
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
) -> Iterator[dict[str, Any]]:
    """A logistic regression on each arm's own examples, with their weights, answering the same test rows."""
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
            fitted = _regression().fit(chosen[:, used], labels, weights)
            test = one_hot(encoder, _rows(features, a.row[here].tolist()))[:, used]
            answers[here] = fitted.predict(test)
        yield _measured(run, f"logistic regression, {arm}'s examples", answers)


def _from_pool(run: Run, task: "Task", features: "pd.DataFrame", encoder: Encoder) -> dict[str, Any]:
    """A logistic regression on every row of the pool but the test rows, fitted once where they never meet."""
    a, pool, fitted = run.answers[run.arms[0]], task.pool(), None
    labels, encoded = task.labels(pool), one_hot(encoder, features.loc[pool.index])
    used = frequent(encoded)
    answers = np.full(len(a), np.nan)
    for repeat in np.unique(a.repeat):
        here = a.repeat == repeat
        training = ~pool.index.isin(a.row[here].tolist())
        if fitted is None or not training.all():
            fitted = _regression().fit(encoded[training][:, used], labels[training])
        answers[here] = fitted.predict(one_hot(encoder, _rows(features, a.row[here].tolist()))[:, used])
    return _measured(run, "logistic regression, all training rows", answers)


def _regression() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


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
