"""Run the notebooks of the manual again, and keep what they print and draw."""

import argparse
import json
import os
import re
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDER = CHECKOUT / "docs" / "notebooks"
SECONDS = 120  # for a cell


def run(path: Path, where: Path | None = None) -> dict[str, Any]:
    """The notebook with the outputs of a fresh run, in the folder `where`, by default an empty
    one.
    """
    nbformat: Any = import_module("nbformat")  # without types of its own
    from jupyter_client.manager import KernelManager
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with (
        TemporaryDirectory(prefix="fwc-llm-notebook-") as folder,
        TemporaryDirectory() as sockets,
    ):
        environment = {**os.environ, "IPYTHONDIR": folder, "PYTHONPATH": str(CHECKOUT)}
        manager = KernelManager(
            transport="ipc", ip=f"{sockets}/kernel"
        )  # a socket's path must be short
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=SECONDS,
            resources={"metadata": {"path": str(where or folder)}},
        )
        try:
            client.execute(env=environment)
        finally:
            manager.shutdown_kernel(now=True)
    text = re.sub(
        r"runs/\d{8}-\d{6}-", "runs/20261123-120000-", nbformat.writes(notebook)
    )
    return settled(json.loads(text))


def settled(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook without what differs between two runs: steps of progress, and where a stream
    is cut.
    """
    for number, cell in enumerate(notebook["cells"]):
        cell["metadata"], cell["id"] = {}, f"cell-{number}"
        kept: list[dict[str, Any]] = []
        for output in cell.get("outputs", []):
            html = "".join(output.get("data", {}).get("text/html", ""))
            if output["output_type"] == "display_data" and re.search(
                r"<progress|: [\d.]+ s</div>", html
            ):
                continue
            if output["output_type"] == "stream":
                output["text"] = "".join(output["text"])
                if (
                    kept and kept[-1].get("name") == output["name"]
                ):  # where a stream is cut is chance
                    kept[-1]["text"] += output["text"]
                    continue
            else:
                output["metadata"] = {}
            kept.append(output)
        if "outputs" in cell:
            cell["outputs"] = kept
    notebook["metadata"] = {
        "kernelspec": {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        },
        "language_info": {"name": "python"},
    }
    return notebook


def texts(notebook: dict[str, Any]) -> list[str]:
    """What the cells print, in their order; pictures and HTML are left out."""
    found = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            found.append("".join(text))
    return found


def main() -> None:
    """Run all notebooks and keep their outputs."""
    parser = argparse.ArgumentParser(
        prog="python -m evals.site.notebooks", description=main.__doc__
    )
    parser.parse_args()
    for path in sorted(FOLDER.glob("*.ipynb")):
        path.write_text(
            json.dumps(run(path), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
