"""Predictions that came from elsewhere: a file's columns as the table that `audit` takes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.errors import FwcError
from fwc_llm.metrics.answers import mapped, names_of
from fwc_llm.metrics.thresholds import HALF
from fwc_llm.report.blocks import open_file
from fwc_llm.report.given_probabilities import Where, answered_at, looks_like_probability, probabilities

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.answers import Names

# Columns of the table that `audit` takes, which a protected column of the same name would replace.
_OURS = frozenset({"answer", "label", "arm", "repeat", "row", "p_yes", "examples", "reason"})
_WORDS = {"yes": "yes", "1": "yes", "true": "yes", "no": "no", "0": "no", "false": "no"}


def read_predictions(
    path: str | Path,
    answer: str | None,
    label: str,
    protected: Sequence[str],
    positive: str | None = None,
    others: Mapping[str, str] | None = None,
    threshold: float = HALF,
) -> "pd.DataFrame":
    """Return a file as answers: `group`, `label`, `answer`, each protected column, and what `others` names.

    The file is CSV, or Parquet, Excel or JSON lines by its ending. Labels and answers are yes and no, 1 and
    0, true and false, or any two values of which `positive` is yes. An empty answer is one that could not be
    parsed. Without `answer` the answer is yes where the column of `p_yes` reaches `threshold`. `group`
    crosses the protected columns ("Male & White"). `others` maps columns of `audit` (arm, repeat, row, p_yes,
    examples) to columns of the file.

    Raises `FwcError` for a file that cannot be read, a column that is not there, values that are neither yes
    nor no, and a P(yes) that is no number from 0 to 1.
    """
    import pandas as pd

    file = open_file(Path(path))
    kind = file.kind
    first = 2 if kind == "line" else 1

    def where(place: int) -> str:
        return f"{kind} {place + first}"

    wanted = {**({"answer": answer} if answer else {}), "label": label, **(others or {})}
    for name in (*wanted.values(), *protected):
        if name not in file.columns:
            alone = len(file.columns) == 1 and kind == "line"
            hint = " (one column: save it with commas between columns)" if alone else ""
            raise FwcError(f"{path} has no column {name!r}; it has {', '.join(file.columns)}{hint}")
    for place, name in enumerate(protected):
        if name in protected[:place]:
            raise FwcError(f"the protected column {name!r} is named twice: name each once")
        if name == label:
            raise FwcError(f"the column {name!r} is the label, and cannot be protected as well")
        if name in _OURS or (name == "group" and len(protected) > 1):
            raise FwcError(
                f"the protected column {name!r} has a name that the audit uses itself: rename it in {path}"
            )
    if not protected:
        raise FwcError("name at least one protected column")
    names = list(dict.fromkeys((*wanted.values(), *protected)))
    read = dict(zip(names, file.read(names), strict=True))

    def filled(name: str, advice: str) -> "Names":
        column = mapped(read[name], str.strip)
        if (empty := column == "").any():
            number = f"{int(empty.sum()):,} in all"
            raise FwcError(f"{where(int(empty.argmax()))} of {path} has no {name}: {advice} ({number})")
        return column

    filled(label, f"leave out the {kind}s without one")
    labels = set(read[label].unique())
    columns: dict[str, Any] = {}
    if p_yes := wanted.get("p_yes"):
        columns["p_yes"] = probabilities(read[p_yes], p_yes, where)
    columns["answer"] = (
        _categories(_answers(read[answer], answer, positive, labels, where))
        if answer
        else answered_at(columns["p_yes"], threshold)
    )
    columns["label"] = _categories(_answers(read[label], label, positive, labels, where))
    crossed = []
    for name in protected:
        levels = filled(name, "write unknown where it is not known")
        crossed.append(mapped(levels, lambda text: text.replace(" & ", " and ")))
        columns[name] = _categories(crossed[-1])
    columns["group"] = _categories(_crossed(crossed))
    for name, column in (others or {}).items():
        if name != "p_yes":
            columns[name] = _categories(mapped(read[column], str.strip))
    return pd.DataFrame(columns)


def _categories(names: "Names") -> "Names":
    """The names as a column of a frame; an empty one is missing."""
    return names.remove_categories("") if "" in names.categories else names


def _crossed(columns: Sequence["Names"]) -> "Names":
    """The levels of several columns, put together."""

    whole = columns[0]
    for one in columns[1:]:
        many = len(one.categories)
        pairs, place = np.unique(whole.codes.astype(np.int64) * many + one.codes, return_inverse=True)
        texts = [f"{whole.categories[pair // many]} & {one.categories[pair % many]}" for pair in pairs]
        whole = names_of(place, texts)
    return whole


def _answers(names: "Names", name: str, positive: str | None, labels: set[str], where: Where) -> "Names":
    """The column as yes, no and (where it is empty) an empty text."""
    values = names.unique().tolist()
    if positive is None:
        known = {value: _WORDS.get(_plain(value).lower()) for value in values}
        hint = "name the value that means yes with --positive"
    else:
        negative = {_plain(value) for value in labels} - {_plain(positive), ""}
        if _plain(positive) not in {_plain(value) for value in labels}:
            raise FwcError(f"no label has the positive value {positive!r}")
        if len(negative) > 1:
            raise FwcError(
                f"the labels have more than two values: {positive!r} and {', '.join(sorted(negative)[:5])}"
            )
        known = {value: "no" for value in values if _plain(value) in negative}
        known |= {value: "yes" for value in values if _plain(value) == _plain(positive)}
        hint = f"the labels are {positive!r} and {', '.join(map(repr, negative)) or 'nothing else'}"
    for value in values:
        if value.strip() and known.get(value) is None:
            if looks_like_probability(values):
                hint = "these look like probabilities: name the column with --p-yes in place of --answer"
            place = int((names == value).argmax())
            raise FwcError(f"{where(place)} has the {name} {value!r}, which is neither yes nor no: {hint}")
    return mapped(names, lambda value: known.get(value) or "")


def _plain(value: str) -> str:
    """A value without spaces around it; a number as it is, however it is written (1.0 is 1)."""
    text = value.strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return f"{number:.12g}"
