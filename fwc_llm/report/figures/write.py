"""A report's pictures as files in a folder."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.files import reason, write_whole
from fwc_llm.report.figures.drawing import as_text, pictures
from fwc_llm.runs.folder import file_name

NO_PNG = "PNG needs matplotlib: pip install 'fwc-llm[plot]'"


def write_figures(document: Mapping[str, Any], folder: str | Path) -> tuple[list[Path], str]:
    """Write the pictures of every run of a document (see `make_document`) as SVG, and as PNG if possible.

    Returns the files, and why there is no PNG (nothing where there is). Errors: `FwcError` for a folder that
    cannot be written to.
    """
    folder, written = Path(folder), list[Path]()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FwcError(f"cannot write figures to {folder}: {reason(error)}") from None
    with_png = find_spec("matplotlib") is not None
    names = _names(document)
    for run, name in zip(document["runs"], names, strict=True):
        for kind, picture in pictures(run):
            path = folder / f"{name}{kind}.svg"
            write_whole(as_text(picture), path)
            written.append(path)
            if with_png:
                written.append(_write_png(path.with_suffix(".png"), picture))
    return written, "" if with_png else NO_PNG


def _names(document: Mapping[str, Any]) -> list[str]:
    """What the files of each run begin with: nothing where there is one run."""
    runs = document["runs"]
    if len(runs) == 1:
        return [""]
    labels = [file_name(str(run["label"])) for run in runs]
    return [
        f"{label}-" if labels.count(label) == 1 else f"{number}-{label}-"
        for number, label in enumerate(labels, 1)
    ]


def _write_png(path: Path, picture: Any) -> Path:
    from fwc_llm.report.figures.png import as_png

    content = as_png(picture)
    partial = path.with_name(path.name + ".partial")
    try:
        partial.unlink(missing_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise FwcError(f"cannot write {path}: {reason(error)}") from None
    return path
