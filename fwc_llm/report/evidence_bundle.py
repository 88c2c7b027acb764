"""A run as one zip file: report, results, journal or hashes, model card.

A bundle without rows has no personal data: no row, prompt, reply or example, and no text that may quote one.
hashes.json has the hash of every file that is left out, so that such a file can be checked later.
"""

import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.files import json_text, sha256, write_whole
from fwc_llm.report.document import make_document
from fwc_llm.report.formats import write_document
from fwc_llm.report.number_format import interval
from fwc_llm.runs.folder import HASHES, HASHES_FORMAT, RunFolder

CARD = "model-card.cdx.json"
_WITHOUT_ROWS = "run.json", "results.json", "experiment.toml"
_NAMES_VALUES = "task_file", "command", "task_folder", "data", "probe_notes", "untrue"  # of run.json
_METRICS = "accuracy", "demographic_parity_difference", "equalized_odds_difference"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that the same run gives the same bytes


def write_bundle(
    run: Path, out: Path, with_rows: bool = True, data_dir: str | Path | None = None
) -> tuple[list[str], str]:
    """Write a run's evidence to a zip file; return the names in it, and its SHA-256."""
    folder = RunFolder.existing(run)
    names = list(folder.own_files())
    now = {name: sha256(folder.path / name) for name in names}
    if other := [name for name, was in folder.hashes().items() if now.get(name, was) != was]:
        why = f"was changed since the run was scored: `fwc-llm verify {run}` says where"
        raise FwcError(f"{run / other[0]} {why}")
    with_rows = with_rows and not folder.describe().get("no_rows")
    document = make_document([run], data_dir=data_dir, with_rows=with_rows)
    texts: dict[str, str] = {}
    if not with_rows:
        names = [name for name in names if name in _WITHOUT_ROWS]
        described = {key: value for key, value in folder.describe().items() if key not in _NAMES_VALUES}
        results = folder.results() | {"no_reply": [], "stopped": None}
        texts = {"run.json": json_text(described), "results.json": json_text(results)}
        about = described | {"command": "", "returned_models": results.get("returned_models", [])}
        for entry in document["runs"]:
            nothing: dict[str, list[Any]] = {arm: [] for arm in entry["examples"]}
            entry.update(examples=nothing, prompts=nothing, about=about)
    texts["report.html"] = write_document(document, "html")
    texts[CARD] = json_text(model_card(document["runs"][0]))
    digests = {name: digest for name, digest in now.items() if name in names and name not in texts}
    digests |= {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    left_out = {name: digest for name, digest in now.items() if digests.get(name) != digest}
    texts[HASHES] = json_text({"format": HASHES_FORMAT, "files": digests, "left_out": left_out})
    archived = io.BytesIO()
    with zipfile.ZipFile(archived, "w") as archive:
        for name in sorted({*names, *texts}):
            content = texts[name].encode() if name in texts else (folder.path / name).read_bytes()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    write_whole(archived.getvalue(), out, "the bundle ")
    return sorted({*names, *texts}), hashlib.sha256(archived.getvalue()).hexdigest()


def model_card(run: Mapping[str, Any]) -> dict[str, Any]:
    """One entry of a document's `runs` as CycloneDX 1.6: model, data and model card."""
    about, stated = run["about"], run["provenance"]["about"]
    considerations = {
        "useCases": list(filter(None, [stated.get("intended_use")])),
        "technicalLimitations": list(filter(None, [stated.get("limits"), _SIMULATED * run["simulated"]])),
        "fairnessAssessments": list(_assessments(run)),
    }
    model = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": str(about["model"]),
        "modelCard": {
            "modelParameters": {"task": "yes or no about rows of a table", "datasets": [{"ref": "table"}]},
            "quantitativeAnalysis": {"performanceMetrics": list(_metrics(run))},
            "considerations": {name: texts for name, texts in considerations.items() if texts},
        },
    }
    table = run["provenance"]["hashes"].get("table as used")
    hashes = {"hashes": [{"alg": "SHA-256", "content": table}]} if table else {}
    data = {"type": "data", "bom-ref": "table", "name": str(about["task"]), **hashes}
    tool = {"type": "application", "name": "fwc-llm", "version": run["provenance"]["report_version"]}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {"components": [tool]},
            "component": {"type": "application", "name": run["label"]},
        },
        "components": [model, data],
    }


_SIMULATED = "The answers or the table are simulated: nothing here is a finding about a language model."


def _metrics(run: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for arm in run["statistics"]["arms"]:
        for name in _METRICS:
            if (estimate := arm[name])["value"] is not None:
                ends = {"lowerBound": str(estimate["low"]), "upperBound": str(estimate["high"])}
                limits = {"confidenceInterval": ends} if estimate["low"] is not None else {}
                yield {"type": name, "value": str(estimate["value"]), "slice": arm["arm"]} | limits


def _assessments(run: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for arm in run["statistics"]["arms"]:
        rates = {name: group["rate"] for name, group in arm["groups"].items() if group["rate"] is not None}
        gap = arm["demographic_parity_difference"]
        if len(rates) > 1 and gap["value"] is not None:
            least = min(rates, key=lambda name: rates[name])
            yield {
                "groupAtRisk": least,
                "harms": f"{arm['arm']}: told yes at a rate of {rates[least]:.3f}, another group at "
                f"{max(rates.values()):.3f}; DP gap {gap['value']:.3f} (95 % interval "
                f"{interval((gap['low'], gap['high']), 3)}); verdict: {gap['verdict'] or 'none'}",
                "mitigationStrategy": f"examples in the prompt: {arm['arm']}",
            }
