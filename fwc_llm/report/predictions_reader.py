"""Predictions that came from elsewhere: a file's columns as the table that `audit` takes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.data.reading import read_frame
from fwc_llm.data.task_inference import sniff_source
from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.files import reason
from fwc_llm.metrics.adverse_impact import over_median
from fwc_llm.metrics.answers import as_names, mapped, names_of
from fwc_llm.metrics.audit_table import Decisions, decided, left_out_note, unused_columns, with_population
from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.thresholds import HALF
from fwc_llm.report.audit import repeated_note
from fwc_llm.report.peers import peer_table
from fwc_llm.taskfile import ENDINGS, UNKNOWN
from fwc_llm.values import as_number, as_plain, as_text, is_null

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.answers import Names
    from fwc_llm.taskfile import Written

MISSING = "refuse", "drop", "group"
_SHOWN = 5  # rows that an error names
# Columns of the table that `audit` takes, which a protected column of the same name would replace.
_OURS = frozenset(
    ("answer", "label", "arm", "repeat", "row", "p_yes", "examples", "reason", "weight", "cluster", "given")
) | {"score", "above"}
_NUMBERS = {"p_yes", "score", "weight"}


def read_predictions(
    path: Path,
    columns: Mapping[str, str],
    protected: Sequence[str],
    decisions: Decisions | None = None,
    threshold: float = HALF,
    missing: str = "refuse",
    population: "pd.DataFrame | None" = None,
    key: str = "",
) -> "tuple[pd.DataFrame, tuple[str, ...]]":
    """Return a file as the table of `audit`: the `columns` that are named, and each protected column.

    The file is what `fwc-llm task init` reads. `columns` maps columns of `audit` (answer, label, arm, repeat,
    row, p_yes, score, examples, weight, cluster, given) to columns of the file. Where `decisions`
    names values, labels and answers become yes and no. Without an answer it is yes where `p_yes` reaches the
    `threshold`, or the `score` is above its median. `missing` says what becomes of rows without a
    protected value, a label or another value that is needed: they are refused, left out ("drop"), or, without
    a protected value, a group. Notes on that and on columns that look as if they should be used come with the
    table. Answers and protected columns that the file lacks are those of the `population`, whose rows `key`
    names.

    Raises `FwcError` for a file that cannot be read, a column that is not there, an answer that is no label's
    value, and a P(yes) that is no number from 0 to 1.
    """
    import pandas as pd

    if missing not in MISSING:
        raise FwcError(f"--missing is {missing!r}: choose {', '.join(MISSING)}")
    if not protected:
        raise FwcError("name at least one protected column")
    if clash := sorted(_OURS.intersection(protected)):
        raise FwcError(
            f"the protected column {clash[0]!r} has a name that the audit uses itself: rename it in {path}"
        )
    needed, elsewhere = list(dict.fromkeys((*columns.values(), *protected))), list[str]()
    if population is not None:
        elsewhere = [n for n in needed if n in (*protected, columns.get("answer")) and n in population]
    read, titles, cells = read_columns(path, needed, elsewhere)
    if population is not None and (lacking := [name for name in needed if name not in read]):
        rows = pd.DataFrame({key: np.asarray(read[columns["row"]], object)})
        whole = with_population(rows, population, key, lacking)
        read |= {name: as_names(whole[name].to_numpy(object)) for name in lacking}
    table: dict[str, Any] = {name: read[column] for name, column in columns.items()}
    table |= {name: mapped(table[name], _plain) for name in ("answer", "label") if name in table}
    said = decisions is not None and (decisions.positive, decisions.negative, decisions.others) != (None,) * 3
    if "answer" in table and not said and looks_like_probability(table["answer"].unique().tolist()):
        raise FwcError(
            f"{columns['answer']!r} looks like probabilities: name it with --p-yes in place of --answer"
        )
    for name in _NUMBERS.intersection(table):
        table[name] = as_numbers(table[name], columns[name], shares=name == "p_yes")
    if "answer" not in table and "p_yes" in table:
        table["answer"] = answered_at(table["p_yes"], threshold)
    elif "answer" not in table:
        table["answer"] = answered_at(over_median(table["score"]), HALF)
    notes = unused_columns(titles, set(read), columns.get("weight"), columns.get("cluster"))
    if "cluster" not in columns:
        given = [columns.get(name) for name in ("answer", "p_yes", "score")]
        notes += tuple(repeated_note(cells.set_axis(titles, axis=1), *given))
    frame = pd.DataFrame({**table, **{name: read[name] for name in protected}})
    if decisions is not None and said:
        outcomes = [name for name in ("answer", "label") if name in columns]
        frame, left_out = decided(frame, outcomes, decisions)
        if left_out.any():
            notes = (*notes, left_out_note(frame, left_out, [columns[name] for name in outcomes], protected))
            frame = frame[~left_out].reset_index(drop=True)
    frame, lost = _without_missing(frame, protected, columns, missing)
    return frame, (*notes, *lost)


def _without_missing(
    table: "pd.DataFrame", protected: Sequence[str], columns: Mapping[str, str], rule: str
) -> "tuple[pd.DataFrame, list[str]]":
    """The table without rows that lack a value that is needed, and how many these are in each group."""
    from fwc_llm.data.table import crossed

    needed = [*protected, *(name for name in columns if name not in {"answer", "p_yes", "score"})]
    empty = {name: ((table[name] == "") | table[name].isna()).to_numpy(dtype=bool) for name in needed}
    empty = {name: lacks for name, lacks in empty.items() if lacks.any()}
    if not empty:
        return table, []
    for name, lacks in empty.items():
        if rule == "refuse" or (rule == "group" and name not in protected):
            others = "; --missing group makes them a group" if name in protected else ""
            raise FwcError(
                f"{int(lacks.sum()):,} rows have no {columns.get(name, name)} (the first is row "
                f"{int(np.argmax(lacks)) + 1}); --missing drop leaves them out{others}"
            )
    for name in protected:
        table[name] = table[name].astype(object).where(table[name] != "", UNKNOWN)
    lacks = np.logical_or.reduce(list(empty.values()))
    groups = Counter(crossed(table[lacks].astype("str"), protected).tolist())
    by_group = ", ".join(f"{group} {n:,}" for group, n in groups.most_common())
    names = ", ".join(columns.get(name, name) for name in empty)
    what = "left out" if rule == "drop" else f"of the group {UNKNOWN!r}"
    note = f"{int(lacks.sum()):,} of {len(table):,} rows have no {names} and are {what}: {by_group}."
    return (table[~lacks].reset_index(drop=True) if rule == "drop" else table), [note]


def read_columns(
    path: Path, names: Sequence[str], elsewhere: Sequence[str] = ()
) -> "tuple[dict[str, Names], list[str], pd.DataFrame]":
    """Return columns of a table as texts, those `elsewhere` where it has them, the titles of all, and all.

    The format is known by the file's ending; separator and encoding of a CSV file are found as
    `fwc-llm task init` finds them; results of other tools become tables (`report/peers.py`). Raises
    `FwcError` for a file that is no table, and a column that it lacks or has twice.
    """
    import pandas as pd

    format = ENDINGS.get(path.suffix.lower(), "csv")
    try:
        content = path.read_bytes()
        frame = peer_table(path, content)
        if frame is None and format == "csv":
            source, titles = sniff_source(path, content)
            options: dict[str, Any] = {"keep_default_na": False, "skipinitialspace": True}
            options |= {"sep": source.separator, "encoding": source.encoding, "names": range(len(titles))}
            frame = pd.read_csv(BytesIO(content), header=0, dtype="category", index_col=False, **options)
            frame.columns = pd.Index(titles)
        elif frame is None:
            frame = read_frame(path, content, format, names)
    except OSError as error:
        raise FwcError(f"cannot read {path}: {reason(error)}") from None
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise FwcError(f"{path} is no table: {error}") from None
    titles = [str(title).strip() for title in frame.columns]
    names = [name for name in names if name in titles or name not in elsewhere]
    for name in names:
        if name not in titles:
            raise FwcError(
                f"{path} has no column {name!r}{did_you_mean(name, titles)}; it has {', '.join(titles)}"
            )
        if titles.count(name) > 1:
            raise FwcError(f"{path} has two columns {name!r}: rename one of them")
    return {name: _texts(frame.iloc[:, titles.index(name)]) for name in names}, titles, frame


def read_population(path: Path, key: str, texts: Sequence[str | None]) -> "pd.DataFrame":
    """Return a table whole, numbers as such but in the `key` and `texts`; `FwcError` for one without key."""
    import pandas as pd

    _, titles, _ = read_columns(path, [])
    columns, *_ = read_columns(path, list(dict.fromkeys([key, *titles])))
    frame = pd.DataFrame({name: np.asarray(texts, object) for name, texts in columns.items()})
    for name in frame.columns.difference([key, *filter(None, texts)]):
        numbers = pd.to_numeric(frame[name], errors="coerce")
        if (numbers.notna() | (frame[name] == "")).all():
            frame[name] = numbers
    return frame


def _texts(column: "pd.Series[Any]") -> "Names":
    """A column's cells as texts without spaces around them, a missing one as an empty text."""
    import pandas as pd

    code, cells = pd.factorize(column)
    texts = pd.Index(["" if is_null(cell) else as_text(cell) for cell in cells.tolist()], dtype="str")
    return names_of(np.where(code < 0, len(texts), code), texts.str.strip().append(pd.Index([""])))


def _plain(text: str) -> str:
    """A number as it is, however it is written (1.0 is 1); other text as it is."""
    number = as_number(text)
    return text if number is None else f"{number:.12g}"


def as_numbers(cells: "Names", column: str, shares: bool = False) -> Floats:
    """Return a column's texts as numbers, all written in one way; an empty one is NaN.

    `shares`: P(yes), from 0 to 1 and without a thousands separator. Raises `FwcError` for texts that are no
    such numbers.
    """
    ways: Sequence[Written] = ("", "1.234,5") if shares else ("", "1,234.5", "1.234,5")
    texts, values = list(cells.categories), list[float | None]()
    for way in ways:
        values = [
            None if "%" in text else as_number(as_plain(text, way)) if text else np.nan for text in texts
        ]
        if None not in values:
            break
    numbers = np.array([np.inf if value is None else value for value in values], np.float64)[cells.codes]
    wrong = np.flatnonzero((numbers < 0.0) | (numbers > 1.0) if shares else np.isinf(numbers)).tolist()
    if wrong:
        named = ", ".join(f"row {place + 1} {cells[place]!r:.40}" for place in wrong[:_SHOWN])
        what = "not P(yes)" if shares else "no number"
        how = " from 0 to 1 (0.87 for 87 %), and leave a cell empty where there is none" if shares else ""
        raise FwcError(
            f"{column!r} is {what} in {len(wrong):,} of {len(cells):,} rows ({named}): write numbers{how}"
        )
    return np.asarray(numbers, np.float64)


def looks_like_probability(cells: Sequence[str]) -> bool:
    """Whether the values of a column that should hold answers are shares, more than two of them."""
    shares = [as_number(cell) for cell in cells if cell]
    return len(shares) > 2 and all(share is not None and 0.0 <= share <= 1.0 for share in shares)


def answered_at(shares: Floats, threshold: float) -> "Names":
    """Return yes where a share is at the threshold or above, a missing value where there is no share."""
    import pandas as pd

    answers = np.where(np.isnan(shares), -1, shares >= threshold).astype(np.int8)
    return pd.Categorical.from_codes(answers, pd.Index(["no", "yes"], dtype=object))
