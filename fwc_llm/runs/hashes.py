"""hashes.json: the sha256 of a run's files as they were when it was scored, or a report was written.

They show what was changed afterwards. Anyone who changes a file can also rewrite its hash: to detect that,
keep the hash of hashes.json elsewhere (a signed report, a mail).
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fwc_llm.errors import FwcError
from fwc_llm.files import sha256
from fwc_llm.runs.folder import RunFolder

FILE_NAME = "hashes.json"
FORMAT = "fwc-llm-hashes/1"
_FILES = (
    *("run.json", "experiment.toml", "questions.jsonl", "pool.jsonl", "journal.jsonl", "answers.csv"),
    *("results.json", "assisted.json"),
)
_FOLDERS = ("shots", "prompts", "given")


def files_of(folder: Path) -> Iterator[str]:
    """Yield the names of a run's own files, "/" between folder and file; links are left out."""
    yield from (name for name in _FILES if _is_own(folder / name))
    for below in filter(lambda name: not (folder / name).is_symlink(), _FOLDERS):
        yield from (f"{below}/{path.name}" for path in sorted((folder / below).glob("*")) if _is_own(path))


def _is_own(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def write_hashes(folder: RunFolder, *names: str) -> None:
    """Write hashes.json for all files of the run, or update it for these files."""
    recorded = read_hashes(folder)
    chosen = names or tuple(files_of(folder.path))
    recorded |= {name: sha256(folder.path / name) for name in chosen}
    folder.write_json(FILE_NAME, {"format": FORMAT, "files": recorded})


def read_hashes(folder: RunFolder, key: str = "files") -> dict[str, str]:
    """Return the recorded sha256 by file; empty where nothing is recorded."""
    with suppress(FwcError):
        content = folder.read_json(FILE_NAME)
        if content.get("format") == FORMAT and isinstance(content.get(key, {}), dict):
            return {str(name): str(digest) for name, digest in content.get(key, {}).items()}
    return {}
