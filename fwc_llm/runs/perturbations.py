"""Perturbations of rows (`--probe`): first names, and exchanged proxy columns."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.models.base import Message, Messages

if TYPE_CHECKING:
    from fwc_llm.tasks import Task

FIRST_NAME = "first name"  # key of the first name in a changed row
TELLING = 0.65  # least AUC of a proxy column
_MOST_PROXIES = 3
_MOST_ROWS = 5_000  # most rows of the pool that are fitted and searched


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(
        Path(__file__).with_name("first_names.toml").read_text(encoding="utf-8")
    )


def _word(level: str) -> str:
    word = level.strip().lower()
    return str(_file()["same"].get(word, word))


def named_levels(task: "Task") -> dict[str, list[str]]:
    """Levels with first names, by attribute with at least two of them; else `FwcError`."""
    lists = _file()["names"]
    sexes = set(lists)
    races = set(lists["female"])
    by_attribute = {}
    without = []
    for attribute in task.protected:
        levels = sorted(map(str, task.pool()[attribute].unique()))
        listed = [level for level in levels if _word(level) in sexes | races]
        without += [level for level in levels if level not in listed]
        if len(listed) > 1:
            by_attribute[attribute] = listed
    if not by_attribute:
        knows = f"the probe `names` knows female and male, Black and white ({_file()['source']})"
        raise FwcError(
            f"there are no lists of first names for the levels {', '.join(without)}: {knows}"
        )
    return by_attribute


def with_first_name(messages: Messages, values: Mapping[str, Any]) -> Messages:
    """Append the first name in `values`, if any, to the record in `messages`."""
    if FIRST_NAME not in values:
        return messages
    index = max(
        index for index, message in enumerate(messages) if message["role"] == "user"
    )
    text = messages[index]["content"].rstrip()
    if text.splitlines()[-1].startswith("- "):
        mark = "- first name"
    else:
        mark = "First name"
    changed: Message = {
        **messages[index],
        "content": f"{text}\n{mark}: {values[FIRST_NAME]}",
    }
    return [*messages[:index], changed, *messages[index + 1 :]]


def name_variants(
    levels: Mapping[str, list[str]], row: str, values: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (variant, values) of the row with a first name for each level.

    Names imply a sex and a race. One is the level to try; the other is that of the row if the row
    states it, else white, or a sex drawn by the row's id.
    """
    lists = _file()["names"]
    drawn = crc32(row.encode())
    words = {_word(str(value)) for value in values.values() if isinstance(value, str)}
    for attribute, names in levels.items():
        for level in names:
            word = _word(level)
            sex = next(
                (candidate for candidate in lists if candidate in words),
                list(lists)[drawn % 2],
            )
            race = next(
                (candidate for candidate in lists[sex] if candidate in words), "white"
            )
            if word in lists:
                chosen = lists[word][race]
            else:
                chosen = lists[sex][word]
            first = chosen[drawn // 2 % len(chosen)]
            yield f"names:{attribute}={level}", {**values, FIRST_NAME: first}


class Proxies:
    """The proxy columns of a protected attribute; `FwcError` if it has none.

    `telling` has the AUC of each column alone and of all columns together ("all"), on held-out
    rows.
    """

    def __init__(self, task: "Task", attribute: str) -> None:
        from sklearn.compose import make_column_transformer
        from sklearn.metrics import roc_auc_score
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        from fwc_llm.models.baseline import LOGISTIC, TableModel
        from fwc_llm.shots.examples import features_frame

        pool = task.pool().iloc[:_MOST_ROWS]
        features = features_frame(task, pool)
        usual = pool[attribute].astype(str).mode()[0]
        target = (pool[attribute].astype(str) == usual).to_numpy(np.int8)
        fitted = np.arange(len(pool)) % 2 == 0
        judged = np.arange(len(pool)) % 2 == 1
        telling = {}
        for name, columns_tried in {
            **{str(c): [c] for c in features},
            "all": list(features),
        }.items():
            model = TableModel(
                LOGISTIC, features.loc[fitted, columns_tried], target[fitted]
            )
            p = model.probabilities(features.loc[judged, columns_tried])
            telling[name] = float(roc_auc_score(target[judged], p))
        best = sorted(
            (name for name in telling if name != "all"), key=lambda name: -telling[name]
        )
        columns = tuple(
            name for name in best[:_MOST_PROXIES] if telling[name] >= TELLING
        )
        if not columns:
            best_auc = (
                f"the best, {best[0]}, has an AUC of {telling[best[0]]:.2f}, "
                f"below {TELLING:g}"
            )
            raise FwcError(
                f"no column reveals {attribute}: {best_auc}; leave out the probe `proxies`"
            )
        rest = pool[[c for c in features if c not in columns]]
        numeric = [c for c in rest if rest[c].dtype.kind in "iuf"]
        others = [c for c in rest if c not in numeric]
        encoder = make_column_transformer(
            (StandardScaler(), numeric),
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), others),
        )
        self.attribute, self.columns, self.telling = attribute, columns, telling
        self._pool, self._encoder, self._encoded = (
            pool,
            encoder,
            encoder.fit_transform(rest),
        )

    @property
    def note(self) -> str:
        """A sentence with the proxies and their AUC."""
        best = sorted(self.telling.items(), key=lambda item: -item[1])[:6]
        listed = ", ".join(
            f"{name} {value:.2f}" for name, value in best if name != "all"
        )
        auc = f"AUC alone: {listed}; all columns together {self.telling['all']:.2f}"
        revealed = f"{self.attribute} is revealed by {', '.join(self.columns)} ({auc})"
        return f"{revealed}; the probe `proxies` exchanges these"

    def variants(
        self, values: Mapping[str, Any]
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield (variant, values) with the proxies of each other level's nearest row."""
        import pandas as pd

        levels = self._pool[self.attribute].astype(str).to_numpy()
        row = pd.DataFrame([dict(values)])[list(self._encoder.feature_names_in_)]
        far = ((self._encoded - self._encoder.transform(row)) ** 2).sum(axis=1)
        for level in sorted(set(levels)):
            if level != str(values[self.attribute]):
                match = self._pool.iloc[
                    int(np.where(levels == level, far, np.inf).argmin())
                ]
                changed = {name: match[name] for name in self.columns}
                yield f"proxies:{self.attribute}={level}", {**values, **changed}
