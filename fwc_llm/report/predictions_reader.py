"""Predictions that came from elsewhere: a file's columns as the table that `audit` takes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.data.reading import as_number, as_text, is_null, read_frame
from fwc_llm.errors import FwcError
from fwc_llm.files import reason
from fwc_llm.metrics.answers import mapped, names_of
from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.thresholds import HALF
from fwc_llm.taskfile import ENDINGS

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.answers import Names

_SHOWN = 5  # rows that an error names
# Columns of the table that `audit` takes, which a protected column of the same name would replace.
_OURS = frozenset({"answer", "label", "arm", "repeat", "row", "p_yes", "examples", "reason"})


def read_predictions(
    path: str | Path,
    answer: str | None,
    label: str,
    protected: Sequence[str],
    positive: str | None = None,
    others: Mapping[str, str] | None = None,
    threshold: float = HALF,
) -> "pd.DataFrame":
    """Return a file as the table of `audit`: `label`, `answer`, each protected column, what `others` names.

    The file is CSV, or Parquet, Excel or JSON lines by its ending. Where `positive` is the value that means
    yes, labels and answers become yes and no. Without `answer` the answer is yes where the column of `p_yes`
    reaches `threshold`. `others` maps columns of `audit` (arm, repeat, row, p_yes, examples) to columns of
    the file.

    Raises `FwcError` for a file that cannot be read, a column that is not there, an answer that is no label's
    value, and a P(yes) that is no number from 0 to 1.
    """
    import pandas as pd

    if not protected:
        raise FwcError("name at least one protected column")
    if clash := sorted(_OURS.intersection(protected)):
        raise FwcError(
            f"the protected column {clash[0]!r} has a name that the audit uses itself: rename it in {path}"
        )
    wanted = {**({"answer": answer} if answer else {}), "label": label, **(others or {})}
    read = read_columns(Path(path), list(dict.fromkeys((*wanted.values(), *protected))))
    columns: dict[str, Any] = {name: read[column] for name, column in wanted.items()}
    named: list[str] = ["label", *(["answer"] if answer else [])]
    outcomes = {name: mapped(columns[name], _plain) for name in named}
    if answer and positive is None and looks_like_probability(outcomes["answer"].unique().tolist()):
        raise FwcError(f"{answer!r} looks like probabilities: name it with --p-yes in place of --answer")
    if positive is not None:
        outcomes = _yes_and_no(outcomes, _plain(positive))
    if p_yes := wanted.get("p_yes"):
        columns["p_yes"] = probabilities(read[p_yes], p_yes)
    if not answer:
        outcomes["answer"] = answered_at(columns["p_yes"], threshold)
    return pd.DataFrame({**columns, **outcomes, **{name: read[name] for name in protected}})


def read_columns(path: Path, names: Sequence[str]) -> dict[str, "Names"]:
    """Return columns of a CSV file, or of Parquet, Excel or JSON lines by its ending, as a CSV file has them.

    Raises `FwcError` for a file that cannot be read, and a column that it lacks.
    """
    import pandas as pd

    format, frame = ENDINGS.get(path.suffix.lower()), pd.DataFrame()
    try:
        if format is None:
            options: dict[str, Any] = {"keep_default_na": False, "encoding": "utf-8-sig"}
            frame = pd.read_csv(path, dtype="category", **options)
        else:
            frame = read_frame(path, path.read_bytes(), format)
    except OSError as error:
        raise FwcError(f"cannot read {path}: {reason(error)}") from None
    except UnicodeDecodeError as error:
        raise FwcError(f"{path} is no UTF-8 text ({error}): save it as CSV (UTF-8), or as Parquet") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise FwcError(f"{path} is not a CSV file: {error}") from None
    titles = list(map(str, frame.columns))
    for name in names:
        if name not in titles:
            hint = " (one column: save it with commas between columns)" if len(titles) == 1 else ""
            raise FwcError(f"{path} has no column {name!r}; it has {', '.join(titles)}{hint}")
    return {name: _texts(frame.iloc[:, titles.index(name)]) for name in names}


def _texts(column: "pd.Series[Any]") -> "Names":
    """A column's cells as texts without spaces around them, a missing one as an empty text."""
    import pandas as pd

    code, cells = pd.factorize(column)
    texts = ["" if is_null(cell) else as_text(cell).strip() for cell in cells.tolist()]
    return names_of(np.where(code < 0, len(texts), code), [*texts, ""])


def _yes_and_no(outcomes: Mapping[str, "Names"], positive: str) -> dict[str, "Names"]:
    """Labels and answers as yes and no; an empty answer stays empty."""
    kinds = set(outcomes["label"].unique()) - {""}
    if positive not in kinds:
        raise FwcError(f"no label has the positive value {positive!r}")
    if len(kinds) > 2:
        shown = ", ".join(sorted(kinds - {positive})[:5])
        raise FwcError(f"the labels have more than two values: {positive!r} and {shown}")
    answers = outcomes.get("answer", outcomes["label"]).unique()
    if others := sorted(set(answers) - kinds - {""}):
        raise FwcError(
            f"the answer {others[0]!r} is neither yes nor no: labels are {', '.join(sorted(kinds))}"
        )
    words = {"": "", positive: "yes"}
    return {name: mapped(names, lambda text: words.get(text, "no")) for name, names in outcomes.items()}


def _plain(text: str) -> str:
    """A number as it is, however it is written (1.0 is 1); other text as it is."""
    number = as_number(text)
    return text if number is None else f"{number:.12g}"


def probabilities(cells: "Names", column: str) -> Floats:
    """Return a column's texts as shares; an empty one is NaN.

    Raises `FwcError` for text, percent and numbers outside [0, 1].
    """
    numbers = [as_number(cell) if cell else np.nan for cell in cells.categories]
    shares = np.array([np.inf if number is None else number for number in numbers], np.float64)[cells.codes]
    wrong = np.flatnonzero((shares < 0.0) | (shares > 1.0)).tolist()
    if wrong:
        named = ", ".join(f"row {place + 1} {cells[place]!r:.40}" for place in wrong[:_SHOWN])
        raise FwcError(
            f"{column!r} is not P(yes) in {len(wrong):,} of {len(cells):,} rows ({named}): write a number "
            "from 0 to 1 with a decimal point (0.87 for 87 %), and leave a cell empty where there is none"
        )
    return np.asarray(shares, np.float64)


def looks_like_probability(cells: Sequence[str]) -> bool:
    """Whether the values of a column that should hold answers are shares, more than two of them."""
    shares = [as_number(cell) for cell in cells if cell]
    return len(shares) > 2 and all(share is not None and 0.0 <= share <= 1.0 for share in shares)


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
