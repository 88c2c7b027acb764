"""Predictions that came from elsewhere: a file's columns as the table that `audit` takes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.data.reading import as_text, is_null, read_frame
from fwc_llm.errors import FwcError
from fwc_llm.metrics.thresholds import HALF
from fwc_llm.report.given_probabilities import Where, answered_at, looks_like_probability, probabilities
from fwc_llm.taskfile.values import ENDINGS

if TYPE_CHECKING:
    import pandas as pd

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

    frame, kind = _read(path)
    first = 2 if kind == "line" else 1

    def where(place: int) -> str:
        return f"{kind} {place + first}"

    wanted = {**({"answer": answer} if answer else {}), "label": label, **(others or {})}
    for name in (*wanted.values(), *protected):
        if name not in frame.columns:
            raise FwcError(f"{path} has no column {name!r}; it has {', '.join(map(str, frame.columns))}")
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
    if (empty := frame[label].str.strip() == "").any():
        raise FwcError(
            f"{where(int(empty.to_numpy().argmax()))} of {path} has no {label}: leave out the {kind}s "
            f"without one ({int(empty.sum()):,} in all)"
        )
    shares: list[float | None] = []
    if p_yes := wanted.get("p_yes"):
        shares = probabilities(frame[p_yes].tolist(), p_yes, where)
    answers = answered_at(shares, threshold)
    if answer:
        answers = _answers(frame[answer], answer, positive, set(frame[label]), where)
    columns: dict[str, Sequence[str | float | None]] = {
        "answer": answers,
        "label": _answers(frame[label], label, positive, set(frame[label]), where),
    }
    for name in protected:
        if (empty := frame[name].str.strip() == "").any():
            raise FwcError(
                f"{where(int(empty.to_numpy().argmax()))} of {path} has no {name}: write unknown where it "
                f"is not known ({int(empty.sum()):,} in all)"
            )
        columns[name] = frame[name].str.strip().str.replace(" & ", " and ").tolist()
    crossed = zip(*(columns[name] for name in protected), strict=True)
    columns["group"] = [" & ".join(map(str, levels)) for levels in crossed]
    for name, column in (others or {}).items():
        values = frame[column].str.strip()
        columns[name] = shares if name == "p_yes" else values.where(values != "").tolist()
    return pd.DataFrame(columns)


def selections(frame: "pd.DataFrame", protected: Sequence[str]) -> dict[str, Any]:
    """Return who was selected by each protected column, and crossed (`impact_tables`): all are applicants."""
    from fwc_llm.metrics.frame import from_frame
    from fwc_llm.report.impact import impact_tables

    return impact_tables(from_frame(frame, attributes=protected))


def _read(path: str | Path) -> "tuple[pd.DataFrame, str]":
    """The file as texts, an empty one where a value is missing, and what its rows are called."""
    import pandas as pd

    try:
        if format := ENDINGS.get(Path(path).suffix.lower()):
            typed = read_frame(Path(path), Path(path).read_bytes(), format)
            texts = {str(name): list(map(_text, typed.iloc[:, place])) for place, name in enumerate(typed)}
            return pd.DataFrame(texts, dtype=str), "row"
        return pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig"), "line"
    except OSError as error:
        raise FwcError(f"cannot read {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise FwcError(f"{path} is not a CSV file: {error}") from None


def _text(cell: Any) -> str:
    return "" if is_null(cell) else as_text(cell)


def _answers(
    values: "pd.Series[str]", name: str, positive: str | None, labels: set[str], where: Where
) -> list[str | None]:
    """The column as yes, no and (where it is empty) None."""
    if positive is None:
        known = {value: _WORDS.get(_plain(value).lower()) for value in set(values)}
        hint = "name the value that means yes with --positive"
    else:
        negative = {_plain(value) for value in labels} - {_plain(positive), ""}
        if _plain(positive) not in {_plain(value) for value in labels}:
            raise FwcError(f"no label has the positive value {positive!r}")
        if len(negative) > 1:
            raise FwcError(
                f"the labels have more than two values: {positive!r} and {', '.join(sorted(negative)[:5])}"
            )
        known = {value: "no" for value in set(values) if _plain(value) in negative}
        known |= {value: "yes" for value in set(values) if _plain(value) == _plain(positive)}
        hint = f"the labels are {positive!r} and {', '.join(map(repr, negative)) or 'nothing else'}"
    for place, value in enumerate(values):
        if value.strip() and known.get(value) is None:
            if looks_like_probability(values.tolist()):
                hint = "these look like probabilities: name the column with --p-yes in place of --answer"
            raise FwcError(f"{where(place)} has the {name} {value!r}, which is neither yes nor no: {hint}")
    return [known.get(value) for value in values]


def _plain(value: str) -> str:
    """A value without spaces around it; a number as it is, however it is written (1.0 is 1)."""
    text = value.strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return f"{number:.12g}"
