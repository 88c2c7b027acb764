"""Predictions that came from elsewhere: a file's columns as the table that `audit` takes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.data.reading import as_number, as_plain, as_text, is_null, read_frame
from fwc_llm.data.task_draft import sniff_source
from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.files import reason
from fwc_llm.metrics.adverse_impact import over_median
from fwc_llm.metrics.answers import as_names, mapped, names_of
from fwc_llm.metrics.audit_table import unused_columns, with_population
from fwc_llm.metrics.counts import Floats
from fwc_llm.metrics.thresholds import HALF
from fwc_llm.report.peers import peer_table
from fwc_llm.taskfile import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

    from fwc_llm.metrics.answers import Names
    from fwc_llm.taskfile import Written

_SHOWN = 5  # rows that an error names
MISSING = ("refuse", "drop", "group")
# Columns of the table that `audit` takes, which a protected column of the same name would replace.
_OURS = frozenset(
    ("answer", "label", "arm", "repeat", "row", "p_yes", "examples", "reason", "weight", "cluster", "given")
) | {"score", "above"}


def read_predictions(
    path: str | Path,
    answer: str | None,
    label: str | None,
    protected: Sequence[str],
    positive: str | None = None,
    others: Mapping[str, str] | None = None,
    threshold: float = HALF,
    missing: str = "refuse",
    population: "pd.DataFrame | None" = None,
    key: str = "",
) -> "tuple[pd.DataFrame, tuple[str, ...]]":
    """Return a file as the table of `audit`: `label`, `answer`, each protected column, what `others` names.

    The file is what `fwc-llm task init` reads. Where `positive` is the value that means yes, labels and
    answers become yes and no. Without `answer` the answer is yes where the column of `p_yes` reaches
    `threshold`, or the `score` is above its median. `others` maps columns of `audit` (arm, repeat, row,
    p_yes, score, examples, weight, cluster, given) to columns of the file. `missing` says what becomes of
    rows without a protected value, a label or another value that is needed: they are refused, left out
    ("drop"), or, without a protected value, a group. Notes on that and on columns that look as if they should
    be used come with the table.

    Answers and protected columns that the file lacks are those of the `population`, whose rows `key` names.

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
    outcome = {name: column for name, column in (("answer", answer), ("label", label)) if column}
    wanted = outcome | dict(others or {})
    needed = list(dict.fromkeys((*wanted.values(), *protected)))
    if population is not None:
        titles = read_columns(Path(path), [])[1]
        elsewhere = [name for name in needed if name in (*protected, answer) and name not in titles]
        elsewhere = [name for name in elsewhere if name in population.columns]
        own, _ = read_columns(Path(path), [name for name in needed if name not in elsewhere])
        rows = pd.DataFrame({key: np.asarray(own[wanted["row"]], object)})
        whole = with_population(rows, population, key, elsewhere)
        read = own | {name: as_names(whole[name].to_numpy(object)) for name in elsewhere}
    else:
        read, titles = read_columns(Path(path), needed)
    columns: dict[str, Any] = {name: read[column] for name, column in wanted.items()}
    outcomes = {name: mapped(columns[name], _plain) for name in outcome}
    if answer and positive is None and looks_like_probability(outcomes["answer"].unique().tolist()):
        raise FwcError(f"{answer!r} looks like probabilities: name it with --p-yes in place of --answer")
    if positive is not None and outcomes:
        outcomes = _yes_and_no(outcomes, _plain(positive))
    if p_yes := wanted.get("p_yes"):
        columns["p_yes"] = probabilities(read[p_yes], p_yes)
    if score := wanted.get("score"):
        columns["score"] = _numbers(read[score], score)
    if not answer and p_yes:
        outcomes["answer"] = answered_at(columns["p_yes"], threshold)
    elif not answer:
        outcomes["answer"] = answered_at(over_median(columns["score"]), HALF)
    table = pd.DataFrame({**columns, **outcomes, **{name: read[name] for name in protected}})
    notes = unused_columns(titles, set(read), wanted.get("weight"), wanted.get("cluster"))
    table, lost = _without_missing(table, protected, wanted, missing)
    if "weight" in wanted:
        table["weight"] = _numbers(table["weight"].array, wanted["weight"])
    return table, (*notes, *lost)


def _without_missing(
    table: "pd.DataFrame", protected: Sequence[str], wanted: Mapping[str, str], rule: str
) -> "tuple[pd.DataFrame, list[str]]":
    """The table without rows that lack a value that is needed, and how many these are in each group."""
    needed = [name for name in wanted if name not in {"answer", "p_yes", "score"}]
    empty = {name: (table[name] == "").to_numpy(dtype=bool) for name in (*protected, *needed)}
    empty = {name: lacks for name, lacks in empty.items() if lacks.any()}
    if not empty:
        return table, []
    refused = [name for name in empty if rule == "refuse" or (rule == "group" and name not in protected)]
    for name in refused:
        n, first = int(empty[name].sum()), int(np.argmax(empty[name])) + 1
        others = "; --missing group makes them a group" if name in protected else ""
        raise FwcError(
            f"{n:,} rows have no {wanted.get(name, name)} (the first is row {first}); --missing drop leaves "
            f"them out{others}"
        )
    from fwc_llm.data.table import crossed

    for name in protected:
        table[name] = table[name].astype(object).where(table[name] != "", UNKNOWN)
    lacks = np.logical_or.reduce(list(empty.values()))
    groups = Counter(crossed(table[lacks].astype("str"), protected).tolist())
    by_group = ", ".join(f"{group} {n:,}" for group, n in groups.most_common())
    columns = ", ".join(wanted.get(name, name) for name in empty)
    what = "left out" if rule == "drop" else f"of the group {UNKNOWN!r}"
    note = f"{int(lacks.sum()):,} of {len(table):,} rows have no {columns} and are {what}: {by_group}."
    return (table[~lacks].reset_index(drop=True) if rule == "drop" else table), [note]


def read_columns(path: Path, names: Sequence[str]) -> "tuple[dict[str, Names], list[str]]":
    """Return columns of a table as texts, and the titles of all of its columns.

    The format is known by the file's ending; separator and encoding of a CSV file are found as
    `fwc-llm task init` finds them; results of other tools become tables (`report/peers.py`). Raises
    `FwcError` for a file that is no table, and a column that it lacks or has twice.
    """
    import pandas as pd

    try:
        content = path.read_bytes()
        if (peers := peer_table(path, content)) is not None:
            frame, titles = peers, [str(title) for title in peers.columns]
        elif (sniffed := sniff_source(path, content))[0].format == "csv":
            source, titles = sniffed
            options: dict[str, Any] = {"keep_default_na": False, "skipinitialspace": True}
            options |= {"sep": source.separator, "encoding": source.encoding, "names": range(len(titles))}
            frame = pd.read_csv(BytesIO(content), header=0, dtype="category", index_col=False, **options)
        else:
            frame = read_frame(path, content, sniffed[0].format, names)
            titles = [str(title).strip() for title in frame.columns]
    except OSError as error:
        raise FwcError(f"cannot read {path}: {reason(error)}") from None
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise FwcError(f"{path} is no table: {error}") from None
    for name in names:
        if name not in titles:
            raise FwcError(
                f"{path} has no column {name!r}{did_you_mean(name, titles)}; it has {', '.join(titles)}"
            )
        if titles.count(name) > 1:
            raise FwcError(f"{path} has two columns {name!r}: rename one of them")
    return {name: _texts(frame.iloc[:, titles.index(name)]) for name in names}, titles


def read_population(path: Path, key: str, texts: Sequence[str | None]) -> "pd.DataFrame":
    """Return a table whole, numbers as such but in the `key` and `texts`; `FwcError` for one without key."""
    import pandas as pd

    titles = read_columns(path, [])[1]
    columns, _ = read_columns(path, list(dict.fromkeys([key, *titles])))
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


def _yes_and_no(outcomes: Mapping[str, "Names"], positive: str) -> dict[str, "Names"]:
    """Labels and answers as yes and no; an empty answer stays empty."""
    named = "label" if "label" in outcomes else "answer"
    kinds = set(outcomes[named].unique()) - {""}
    if positive not in kinds:
        raise FwcError(f"no {named} has the positive value {positive!r}")
    if len(kinds) > 2:
        shown = ", ".join(sorted(kinds - {positive})[:5])
        raise FwcError(f"the {named}s have more than two values: {positive!r} and {shown}")
    answers = outcomes.get("answer", outcomes[named]).unique()
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
    shares = _as_numbers(cells, ("", "1.234,5"))
    wrong = np.flatnonzero((shares < 0.0) | (shares > 1.0)).tolist()
    if wrong:
        named = ", ".join(f"row {place + 1} {cells[place]!r:.40}" for place in wrong[:_SHOWN])
        raise FwcError(
            f"{column!r} is not P(yes) in {len(wrong):,} of {len(cells):,} rows ({named}): write a number "
            "from 0 to 1 (0.87 for 87 %), and leave a cell empty where there is none"
        )
    return np.asarray(shares, np.float64)


def _numbers(cells: "Names", column: str) -> Floats:
    """A column's texts as numbers, written as programs or as people write them."""
    numbers = _as_numbers(cells, ("", "1,234.5", "1.234,5"))
    if np.isinf(numbers).any():
        place = int(np.argmax(np.isinf(numbers)))
        raise FwcError(f"row {place + 1} has {cells[place]!r:.40} in {column!r}, which is no number")
    return numbers


def _as_numbers(cells: "Names", ways: "Sequence[Written]") -> Floats:
    """Texts as numbers, all written in the first of the `ways` that fits: infinite where none fits."""
    texts, numbers = list(cells.categories), list[float | None]()
    for way in ways:
        numbers = [
            None if "%" in text else as_number(as_plain(text, way)) if text else np.nan for text in texts
        ]
        if None not in numbers:
            break
    known = np.array([np.inf if number is None else number for number in numbers], np.float64)
    return np.asarray(known[cells.codes], np.float64)


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
        raise FwcError(
            "name the column of predictions with --answer, that of probabilities with --p-yes, or that of "
            "scores with --score"
        )
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
