"""Predictions that came from elsewhere: a file's columns as the table that `audit` takes."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.data.reading import as_text, is_null, read_frame
from fwc_llm.errors import FwcError
from fwc_llm.files import reason
from fwc_llm.metrics.answers import mapped, names_of
from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.thresholds import HALF
from fwc_llm.taskfile import ENDINGS

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.answers import Names

Where = Callable[[int], str]
_SHOWN = 5  # rows that an error names
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

    path = Path(path)
    kind = "line" if ENDINGS.get(path.suffix.lower()) is None else "row"
    first = 2 if kind == "line" else 1

    def where(place: int) -> str:
        return f"{kind} {place + first}"

    wanted = {**({"answer": answer} if answer else {}), "label": label, **(others or {})}
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
    read = read_columns(path, list(dict.fromkeys((*wanted.values(), *protected))))

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


def read_columns(path: Path, names: Sequence[str]) -> dict[str, "Names"]:
    """Return columns of a CSV file, or of Parquet, Excel or JSON lines by its ending, as a CSV file has them.

    Raises `FwcError` for a file that cannot be read, and a column that it lacks.
    """
    import pandas as pd

    format, frame = ENDINGS.get(path.suffix.lower()), pd.DataFrame()
    options: dict[str, Any] = {"keep_default_na": False, "encoding": "utf-8-sig"}
    try:
        if format is None:
            titles = list(map(str, pd.read_csv(path, nrows=0, **options).columns))
        else:
            frame = read_frame(path, path.read_bytes(), format)
            titles = list(map(str, frame.columns))
        for name in names:
            if name not in titles:
                hint = " (one column: save it with commas between columns)" if len(titles) == 1 else ""
                raise FwcError(f"{path} has no column {name!r}; it has {', '.join(titles)}{hint}")
        if format is None:
            frame = pd.read_csv(path, dtype="category", **options)
    except OSError as error:
        raise FwcError(f"cannot read {path}: {reason(error)}") from None
    except UnicodeDecodeError as error:
        raise FwcError(f"{path} is no UTF-8 text ({error}): save it as CSV (UTF-8), or as Parquet") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise FwcError(f"{path} is not a CSV file: {error}") from None
    return {name: _texts(frame.iloc[:, list(map(str, frame.columns)).index(name)]) for name in names}


def _texts(column: "pd.Series[Any]") -> "Names":
    """A column's cells as texts, a missing one as an empty text; each different cell is turned once."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, cells = np.asarray(column.cat.codes), column.cat.categories.tolist()
    else:
        places: dict[str, int] = {}
        texts = ("" if is_null(cell) else as_text(cell) for cell in column.tolist())
        codes = np.array([places.setdefault(text, len(places)) for text in texts], np.int64)
        cells = list(places)
    cells = [*("" if is_null(cell) else as_text(cell) for cell in cells), ""]
    return names_of(np.where(codes < 0, len(cells) - 1, codes), cells)


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


def probabilities(cells: "Names", column: str, where: Where) -> Floats:
    """Return a column's texts as shares; an empty one is NaN. `where` names a row in an error.

    Raises `FwcError` for text, percent and numbers outside [0, 1], and says what to do about them.
    """
    known = (_share(cell) for cell in cells.categories)
    shares = np.array([np.nan if share is None else share for share in known], np.float64)
    shares = np.asarray(shares[cells.codes])
    wrong = np.flatnonzero(shares == np.inf).tolist()
    if not wrong:
        return shares
    named = [f"{where(place)} {cells[place]!r:.40}" for place in wrong[:_SHOWN]]
    more = f" and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
    raise FwcError(
        f"{column!r} is not P(yes), a number from 0 to 1, in {len(wrong):,} of {len(cells):,} rows "
        f"({', '.join(named)}{more}): {_advice([str(cells[place]) for place in wrong])}"
    )


def looks_like_probability(cells: Sequence[str]) -> bool:
    """Whether a column that should hold answers holds P(yes): shares, not all of them 0 and 1."""
    shares = {_share(cell) for cell in set(cells) if cell.strip()}
    return len(shares) > 2 and not any(share is None or share is math.inf for share in shares)


def answered_at(shares: Floats, threshold: float) -> "Names":
    """Return yes where a share is at the threshold or above, a missing value where there is no share."""
    import pandas as pd

    answers = np.where(np.isnan(shares), -1, shares >= threshold).astype(np.int8)
    return pd.Categorical.from_codes(answers, pd.Index(["no", "yes"], dtype=object))


def choose_threshold(answer: str | None, p_yes: str | None, threshold: float | None) -> float:
    """Return the threshold for an audit; `FwcError` where columns and threshold do not fit together."""
    if answer is None and p_yes is None:
        raise FwcError("name the column of predictions with --answer, or that of probabilities with --p-yes")
    if answer is not None and threshold is not None:
        raise FwcError(
            "--threshold makes answers of --p-yes, and --answer gives the answers: leave out one of them"
        )
    if threshold is not None and not 0.0 <= threshold <= 1.0:
        raise FwcError(
            f"--threshold {threshold:g} is not from 0 to 1: answers are yes where P(yes) reaches it"
        )
    return HALF if threshold is None else threshold


def ties_line(shares: "pd.Series[float]", threshold: float) -> str:
    """Say how many rows lie just at the threshold, and how many have no P(yes); empty where none does."""
    ties, lost = int((shares == threshold).sum()), int(shares.isna().sum())
    parts = [f"{ties:,} of {len(shares):,} rows lie just at {threshold:g}; they count as yes"] * bool(ties)
    parts += [f"{lost:,} have no P(yes) and count as unparsed"] * bool(lost)
    return "; ".join(parts)


def _share(cell: str) -> float | None:
    """The share that a text writes; None for an empty one, infinity for what is none."""
    text = cell.strip()
    if not text:
        return None
    number = _number(text)
    return number if number is not None and 0.0 <= number <= 1.0 else math.inf


def _advice(cells: Sequence[str]) -> str:
    texts = [cell.strip() for cell in cells]
    if any(text.endswith("%") for text in texts):
        return "write percent as shares, 0.87 for 87 %"
    if any(_number(text.replace(",", ".", 1)) is not None and "," in text for text in texts):
        return "write a decimal point, 0.87 for 0,87"
    numbers = [number for text in texts if (number := _number(text)) is not None]
    if len(numbers) == len(texts) and numbers:
        if min(numbers) < 0.0:
            return "negative numbers may be log-odds or log-probabilities: turn them into probabilities first"
        if max(numbers) <= 100.0:
            return "if these are percent, divide them by 100"
    return "leave a cell empty where there is no probability"


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None
