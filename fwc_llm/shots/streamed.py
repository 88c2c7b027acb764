"""Examples from a table that is too large for memory: Parquet files, read in blocks."""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from fwc_llm.data.cleaned import Cleaned, Cleaner
from fwc_llm.data.locate import check_named
from fwc_llm.data.row_filters import filled_note
from fwc_llm.errors import FwcError
from fwc_llm.shots.base import DEFAULT_M, Shots
from fwc_llm.shots.examples import RULES, make_examples
from fwc_llm.shots.select import order_shots
from fwc_llm.shots.strategies.coresets import certified
from fwc_llm.taskfile import parse_taskfile

if TYPE_CHECKING:
    from fwc_llm.coreset.streaming.blocks import Block
    from fwc_llm.tasks import Task

_OTHERS = (".csv", ".tsv", ".txt", ".xlsx", ".jsonl", ".feather", ".arrow")  # endings of other files
_LABEL, _LEVEL, _WEIGHT = "label", "level", "weight"


def streamed_shots(
    task: "Task",
    data: str | Path,
    m: int = DEFAULT_M,
    epsilon: float | None = 0.01,
    seed: int = 0,
    order: str = "given",
    say: Callable[[str], None] = lambda words: None,
    **options: Any,
) -> tuple[Shots, tuple[str, ...]]:
    """The examples that the strategy `fwc` chooses from Parquet files, and notes on the rows that were read.

    The rows are cleaned as the task file says, block by block, and written to a temporary Parquet file; of
    these `FairCoreset` chooses, with the memory of some blocks. `data` is a path, a pattern or a folder;
    `options` are those of `fwc`.

    Raises:
        FwcError: no task file, files that cannot be read or do not fit it, `role = "id"`, a table of slots.
    """
    from fwc_llm.coreset import FairCoreset

    settings = _settings(options)
    check_named(str(data))
    if not task.text:
        raise FwcError(f"the task {task.name!r} has no task file that says how a table is read: name one")
    with TemporaryDirectory(prefix="fwc-llm-") as folder:
        clean = _cleaned(task, data, Path(folder), say)
        estimator = FairCoreset(m, epsilon=epsilon, support="rows", random_state=seed, **settings).fit(
            _features(task, clean),
            _LABEL,
            _LEVEL,
            sample_weight=_WEIGHT if task.weight else None,
            progress=say,
        )
        weights, positions = np.asarray(estimator.weights_), np.asarray(estimator.row_index_)
        heaviest = np.argsort(-weights, kind="stable")
        rows = clean.take(positions[heaviest].tolist())
        say("a checksum of the table")
        fingerprint = clean.fingerprint()
    recorded = {"m": m, "epsilon": epsilon, "slots": settings["slots"]}
    if task.weight:
        recorded["sample_weight"] = task.weight
    examples = make_examples(task, rows, weights[heaviest])
    shots = Shots("fwc", task.name, fingerprint, seed, examples, options=recorded, protected=task.protected)
    shots = certified(shots, estimator, task.sensitive(rows), task.labels(rows))
    lost = [f"{count:,} rows lost: {reason}" for reason, count in clean.rows.reasons.items()]
    filled = [filled_note(clean.filled)] if clean.filled else []
    notes = (f"{data}: {clean.rows.kept:,} of {clean.rows.read:,} rows kept", *lost, *filled)
    return order_shots(shots, order, seed), notes


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `fwc` as those of the solver."""
    found = {"slots": "balanced-positive", "max_iter": 300} | dict(options)
    unknown = sorted(set(found) - {"slots", "max_iter", "n_init"})
    if unknown:
        raise FwcError(f"the strategy has no option {unknown[0]!r}: it takes slots, n_init, max_iter")
    if found["slots"] not in RULES:
        raise FwcError(
            f"slots={found['slots']!r}: for a table read in blocks, name one of {', '.join(RULES)}"
        )
    return found


def _cleaned(task: "Task", data: str | Path, folder: Path, say: Callable[[str], None]) -> Cleaned:
    """The table of these files, cleaned into a file in `folder`."""
    from fwc_llm.coreset.streaming.sources.arrow import ArrowSource
    from fwc_llm.coreset.streaming.sources.opening import open_source

    taskfile = parse_taskfile(task.text, (task.folder or Path()) / f"{task.name}.toml", task.name)
    extra = (_LABEL, _LEVEL, *([_WEIGHT] if task.weight else []))
    cleaner = Cleaner(taskfile, folder, extra)
    other = FwcError(
        f"{data}: a table is read in blocks from Parquet files alone: write it as such, or name it in the "
        "task file, which says its separator and encoding, if it fits into memory"
    )
    if Path(data).suffix.lower() in _OTHERS:
        raise other
    source = open_source(str(data), threads=1, columns=cleaner.names)  # one: rows are written in their order
    if not isinstance(source, ArrowSource) or not source.by_row_groups:
        raise other

    def write(block: "Block") -> int:
        path, first = source.origin(block.index)
        frame = cleaner.clean(block.rows, Path(path), first)
        own = frame[[]].assign(**{_LABEL: task.labels(frame), _LEVEL: task.sensitive(frame)})
        if task.weight:
            own[_WEIGHT] = task.weights(frame)
        cleaner.write(frame, own)
        return len(frame)

    source.reduce(
        write,
        lambda one, other: one + other,
        lambda done, blocks: say(f"cleaning rows: {done:,} of {blocks:,} blocks"),
    )
    return cleaner.done()


def _features(task: "Task", clean: Cleaned) -> Any:
    """The clean table as a dataset of the features and of what is beside them."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    dataset = ds.dataset(clean.path, format="parquet")
    names = [clean.names[column.name] for column in task.features] + list(clean.extra)
    return ds.dataset(
        clean.path, format="parquet", schema=pa.schema([dataset.schema.field(n) for n in names])
    )
