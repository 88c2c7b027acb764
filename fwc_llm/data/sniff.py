"""A first task file for a user's own table: what can be guessed from the values, and what must be checked."""

import json
import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from fwc_llm.data.format import sniff_source
from fwc_llm.data.looks import FEW, Look, is_number, look_at
from fwc_llm.data.question import draft_question, means_yes, spoken
from fwc_llm.data.reading import RawTable, Texts, read_table
from fwc_llm.data.writing import as_plain
from fwc_llm.errors import FwcError
from fwc_llm.taskfile import DEFAULT_MARKERS, Source

_MORE_MARKERS = ("NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "-", ".")
_LITTLE, _HALF = (
    0.03,
    0.5,
)  # shares of rows whose loss goes without saying, and beyond which a column tells little
_DROPS = 'missing = "drop"'
_WHERE = {"feature": "", "id": "; it is not shown", "drop": "; it is left out"}


@dataclass(frozen=True)
class Draft:
    """The text of a task file, and what its author should check."""

    text: str
    checks: tuple[str, ...]


def draft_task(path: Path, protected: Sequence[str], outcome: str, beside: Path) -> Draft:
    """Draft a task file, to be written into the folder `beside`, for the table at `path`.

    Raises `FwcError` when `path` is no table with a header line, or lacks a column that is named, and when
    one column is named twice.
    """
    named = (*protected, outcome)
    if not all(name.strip() for name in named):
        raise FwcError("a column name is empty: name the protected attribute and the outcome")
    if twice := [name for name in named if named.count(name) > 1]:
        raise FwcError(
            f"column {twice[0]!r} is named twice: protected attributes and outcome are columns of their own"
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FwcError(f"cannot read {path}: {error.strerror or error}") from error
    source, titles = sniff_source(path, content)
    for name in named:
        if name not in titles:
            raise FwcError(
                f"{path}: its first line has no column {name!r}; it has {', '.join(map(repr, titles[:30]))} "
                "(a table without a header line needs a task file written by hand: header = false)"
            )
    # A column without a title (such as a saved index) is left out.
    repeated = {title for title in titles if titles.count(title) > 1}
    for name in named:
        if name in repeated:
            raise FwcError(f"{path}: the header names column {name!r} more than once: rename one of them")
    usable = [title for title in titles if title and title not in repeated]
    raw = read_table(path, content, source, usable)
    checks = [
        f"column {_one_line(name)}: the header names it {titles.count(name)} times; to use it, rename it"
        for name in sorted(repeated - {""})
    ]
    return _draft(path, source, raw, protected, outcome, beside, checks)


def draft_frame(
    raw: RawTable,
    protected: Sequence[str],
    outcome: str,
    positive: Sequence[str],
    above: float | None,
    weight: str = "",
) -> Draft:
    """Draft a task for columns that are at hand; yes means one of `positive`, or a number above `above`.

    `weight` is the column that says for how many a row stands; empty: there is none.

    Raises `FwcError` for a column that is not there.
    """
    for name in (*protected, outcome, *([weight] if weight else [])):
        if name not in raw.columns:
            raise FwcError(f"there is no column {name!r}: there are {', '.join(map(repr, raw.columns))}")
    path = Path("table")
    source = Source(file=path.name, format="parquet")
    return _draft(path, source, raw, protected, outcome, Path(), [], positive, above, weight)


def _draft(
    path: Path,
    source: Source,
    raw: RawTable,
    protected: Sequence[str],
    outcome: str,
    beside: Path,
    checks: list[str],
    positive: Sequence[str] = (),
    above: float | None = None,
    weight: str = "",
) -> Draft:
    """The draft for a table that has been read."""
    named = (*protected, outcome)
    special = {**dict.fromkeys(protected, "protected"), outcome: "outcome"}
    markers, columns = _markers(raw.columns)
    looks = {name: look_at(name, cells, name in named) for name, cells in columns.items()}
    for name, cells in columns.items():
        missing = cells.count(None) / len(cells)
        plain = name not in special and (looks[name].kind, looks[name].role) == ("numeric", "feature")
        if plain and missing > _HALF:
            why = f"CHECK: {100 * missing:.0f} % of its values are missing"
            looks[name] = replace(looks[name], role="drop", why=why)
    if weight:
        looks[weight] = replace(looks[weight], kind="numeric", role="extra", why="")
    if all(look.role != "feature" for name, look in looks.items() if name not in special):
        # A task needs a feature: rather a doubtful one than none.
        doubtful = {n: replace(look, role="feature") for n, look in looks.items() if any(columns[n])}
        looks |= {name: look for name, look in doubtful.items() if name not in (*special, weight)}
    used = [name for name, look in looks.items() if look.role in ("feature", "extra")]
    lacking = {name: columns[name].count(None) for name in used if None in columns[name]}
    lost = sum(None in row for row in zip(*(columns[name] for name in used), strict=True))
    rule = "category" if lost > _LITTLE * len(raw.ids) else "drop"
    answer = _answer(outcome, columns[outcome], looks[outcome])
    if positive or above is not None:
        said = f"threshold = {{ above = {above} }}" if above is not None else f"positive = {_list(positive)}"
        answer = positive[0] if positive else None, above, [*answer[2][:2], said], answer[3]
    question = draft_question(path.stem, outcome, *answer[:2])
    about: list[str] = []
    entries = {
        name: _column(name, cells, looks[name], rule, special.get(name, ""), about)
        for name, cells in columns.items()
    }
    dropped = {name for name in lacking if rule == "category" and _DROPS in entries[name]}
    lines = _head(path, question, rule, lacking, dropped, len(raw.ids), checks)
    if weight:
        lines.insert(-2, f"weight = {_quote(weight)}")
    lines.append("columns = [")
    checks += about
    lines += [*entries.values(), "]", "", *_data(path, source, markers, beside), ""]
    lines += answer[2]
    checks.append(answer[3])
    for name in protected:
        lines += ["", *_protected(name, columns[name], looks[name], checks)]
    return Draft("\n".join(lines) + "\n", tuple(checks))


def _markers(columns: dict[str, Texts]) -> tuple[list[str], dict[str, Texts]]:
    """Further missing markers, found as the only texts among numbers, and the columns cleared of them."""
    found: list[str] = []
    for cells in columns.values():
        texts = {cell for cell in set(cells) if cell is not None and not is_number(cell)}
        if texts and texts <= set(_MORE_MARKERS) and any(cell not in texts for cell in cells if cell):
            found += sorted(texts - set(found))
    marked = frozenset(found)
    return found, {
        name: [None if cell in marked else cell for cell in cells] for name, cells in columns.items()
    }


def _head(
    path: Path,
    question: str,
    rule: str,
    missing: dict[str, int],
    dropped: Collection[str],
    n: int,
    checks: list[str],
) -> list[str]:
    checks.append(f"question: {question} Write it as a person would ask it, to be answered with yes or no")
    lines = [
        f"# A task for fwc-llm, drafted from {_one_line(path.name)} ({n:,} rows). Guesses are marked CHECK.",
        "",
        f"title = {_quote(spoken(path.stem))}",
        f"question = {_quote(question)} # CHECK",
    ]
    said = ", ".join(f"{_one_line(name)} {count:,}" for name, count in missing.items())
    if not missing:
        lines.append('missing = "error" # no value is missing; otherwise "drop" or "category"')
    elif rule == "drop":
        lines.append(f'missing = "drop" # CHECK: or "category", or "error"; missing values: {said}')
        checks.append(f"missing: rows with a missing value are dropped ({said})")
    else:
        lines.append(
            f'missing = "category" # CHECK: dropping rows would lose too many; missing values: {said}'
        )
        kept, lost = (
            ", ".join(
                f"{_one_line(name)} {missing[name]:,}" for name in missing if (name in dropped) == drops
            )
            for drops in (False, True)
        )
        if kept:
            checks.append(f'missing: a missing value becomes the category "unknown" ({kept})')
        if lost:
            checks.append(f"missing: rows with a missing value are dropped ({lost})")
    lines += [
        "",
        "# role: feature, extra (shown where a template asks, unused by the solver), id (unique), or drop.",
    ]
    return lines


def _column(name: str, cells: Texts, look: Look, rule: str, special: str, checks: list[str]) -> str:
    """One column's line; `special` is "protected", "outcome" or "".

    Under the rule "category" a number that is missing gets bands, or loses its rows.
    """
    entry = [f"name = {_quote(name)}", f"text = {_quote(name.replace('_', ' ').replace('-', ' '))}"]
    kind, why = look.kind, look.why
    missing = cells.count(None) / len(cells)
    share = f"{100 * missing:.0f} %" if missing >= 0.01 else "under 1 %"
    bands: list[float] = []
    if look.role == "extra":  # the weight: without it a row counts nothing
        entry += [f'kind = "{kind}"', f'role = "{look.role}"', *([_DROPS] if missing else [])]
    elif look.role != "feature":
        entry.append(f'role = "{look.role}"')
    elif rule == "category" and missing:
        if kind == "categorical" and special == "protected" and missing > _LITTLE:
            why = f'CHECK: {share} lack it and make a group "unknown"; missing = "drop" leaves them out'
        elif special:
            entry.append(_DROPS)
            why = "a row without it cannot be used"
        elif kind == "numeric" and missing > _LITTLE and (bands := _quartiles(cells, look)):
            kind = "categorical"
            why = f'CHECK: {share} are missing; bands, so that "unknown" can be one of them'
        elif kind == "numeric":
            entry.append(_DROPS)
            why = f"CHECK: {share} are missing, and a number cannot be unknown: these rows are dropped"
    if look.role == "feature":
        entry.insert(2, f'kind = "{kind}"')
    if look.written and look.role in ("feature", "extra"):
        entry.append(f"written = {_quote(look.written)}")
    if bands:
        entry.append(f"bands = [{', '.join(f'{limit:.10g}' for limit in bands)}]")
    if why.startswith("CHECK: "):
        checks.append(f"column {_one_line(name)}: {why.removeprefix('CHECK: ')}{_WHERE[look.role]}")
    return f"  {{ {', '.join(entry)} }},{f' # {why}' if why else ''}"


def _quartiles(cells: Texts, look: Look) -> list[float]:
    """Three limits that cut the numbers into four equal parts; fewer where values repeat, none for one."""
    numbers = sorted(float(as_plain(cell, look.written)) for cell in cells if cell is not None)
    limits = sorted({numbers[len(numbers) * k // 4] for k in (1, 2, 3)} - {numbers[-1]})
    return (
        [float(f"{limit:.3g}") for limit in limits]
        if len({f"{x:.3g}" for x in limits}) == len(limits)
        else limits
    )


def _data(path: Path, source: Source, markers: Sequence[str], beside: Path) -> list[str]:
    lines = ["[data]", f"file = {_quote(os.path.relpath(path, beside).replace(os.sep, '/'))}"]
    if source.format == "csv":
        lines.append(f"separator = {_quote(source.separator)}")
        lines.append("header = true")
        if source.encoding != "utf-8-sig":
            lines.append(f'encoding = "{source.encoding}" # CHECK: it is no UTF-8')
    if markers:
        lines.append(f"missing_marker = {_list((*DEFAULT_MARKERS, *markers))}")
    return lines


def _answer(name: str, cells: Texts, look: Look) -> tuple[str | None, float | None, list[str], str]:
    """Which value, or above which number, means yes; the lines that say so; what to check."""
    counts = Counter(cell for cell in cells if cell is not None)
    lines = ["[outcome]", f"column = {_quote(name)}"]
    said = ", ".join(f"{_one_line(value)} ({count:,})" for value, count in counts.most_common(12))
    if len(counts) > 2 and look.kind == "numeric":
        middle = median(float(as_plain(str(cell), look.written)) for cell in counts.elements())
        lines.append(
            f"# threshold = {{ above = {middle:g} }} # CHECK: the median; above which number is it yes?"
        )
        return None, middle, lines, f"outcome {name}: a number; say above which threshold the answer is yes"
    if answers := means_yes(counts):
        yes, no = answers
        lines.append(f"positive = {_list(yes)} # CHECK: the values are {said}")
        lines.append(f"negative = {_list(no)}")
        taken = f"{', '.join(map(repr, yes))} was taken for yes, {', '.join(map(repr, no))} for no"
        return yes[0], None, lines, f"outcome {name}: {taken}"
    example = next(iter(counts), "…")
    lines.append(f"# positive = [{_quote(example)}] # CHECK: which of these mean yes? {said}")
    return example, None, lines, f"outcome {name}: say which values mean yes: {said}"


def _protected(name: str, cells: Texts, look: Look, checks: list[str]) -> list[str]:
    counts = Counter(cell for cell in cells if cell is not None)
    lines = ["[[protected]]", f"column = {_quote(name)}"]
    if len(counts) > FEW and look.kind == "numeric":
        middle = median(float(as_plain(str(cell), look.written)) for cell in counts.elements())
        lines.append(
            f"# threshold = {{ above = {middle:g} }} # CHECK: the median; or group the values with a map"
        )
        checks.append(f"protected {name}: a number with {len(counts):,} values; split it with a threshold")
        return lines
    rare = [value for value, count in counts.items() if count < 10]
    if rare or len(counts) > FEW:
        listed = ", ".join(f"{_quote(value)} = {_quote(value)}" for value in list(counts)[:20])
        lines.append(f"# map = {{ {listed} }} # CHECK: group rare levels by giving them one name")
        checks.append(f"protected {name}: {len(counts)} levels, some with few rows; a map can group them")
    return lines


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quote, texts))}]"


def _one_line(text: str) -> str:
    """A cell or name in a comment: without line ends and control characters, not too long."""
    return "".join(char if char.isprintable() else " " for char in text)[:40]


def _quote(text: str) -> str:
    """`text` as a TOML basic string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
