"""The report of decisions that were made elsewhere: the one that a run has."""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fwc_llm.report.decisions import write_decisions
from fwc_llm.report.document import make_document
from fwc_llm.runs.folder import file_name

if TYPE_CHECKING:
    import pandas as pd


def document_of_decisions(
    frame: "pd.DataFrame",
    predictions: Path,
    about: Mapping[str, Any],
    attributes: Sequence[str],
    with_rows: bool = False,
) -> dict[str, Any]:
    """Return what the report of an audit says: each attribute, and all of them crossed (`make_document`)."""
    digest = hashlib.sha256(predictions.read_bytes()).hexdigest()
    views = [[name] for name in attributes] + ([list(attributes)] if len(attributes) > 1 else [])
    with tempfile.TemporaryDirectory(prefix="fwc-llm-") as place:
        folders = []
        for names in views:
            said = {**about, "protected": names, "sha256": digest, "numbered": "row" not in frame}
            group = frame["group"] if len(names) > 1 else frame[names[0]]
            folder = Path(place) / file_name(f"by {' and '.join(names)}")
            folders.append(write_decisions(frame.assign(group=group), folder, said, names))
        return make_document(folders, with_rows=with_rows)
