"""Safe file access: reads check the file's type and size, writes are atomic."""

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from shlex import quote
from typing import IO, Any, Literal

from fwc_llm.errors import FwcError, near, require
from fwc_llm.sanitize import Json, redact

LARGEST_FILE = 1 << 28  # bytes of a file that is read as a whole
_PACKAGE = Path(__file__).resolve().parent
_TEXT: Json = {"encoding": "utf-8", "errors": "backslashreplace", "newline": ""}
is_file = (
    os.path.isfile
)  # returns False for a name that the system refuses, where Path.is_file may raise


def read_text(path: Path, most: int = LARGEST_FILE) -> str:
    """Read a UTF-8 file; `OSError` for a pipe, a device or more than `most` bytes."""
    with open_binary(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content.decode("utf-8-sig")


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal; `OSError` as in `open_binary`."""
    with open_binary(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_binary(path: Path) -> BufferedReader:
    """Open a file for reading; `OSError` for a pipe, which would block, or a device."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path.open("rb")


def resource_dir(name: str) -> Path:
    """The folder `name` of the installed package or the checkout ("prompts")."""
    packaged = _PACKAGE / "_resources" / name
    if packaged.is_dir():
        return packaged
    return _PACKAGE.parent / name


def reason(error: Exception) -> str:
    """The cause of a file error, without errno and path; for a missing file with a near name."""
    cause = str(getattr(error, "strerror", None) or error)
    if isinstance(error, FileNotFoundError) and error.filename:
        path = Path(os.fsdecode(error.filename))
        with suppress(OSError):
            cause += near(path.name, sorted(os.listdir(path.parent)))
    return cause


@contextmanager
def failing_as(
    kind: type[FwcError],
    prefix: str,
    then: str = "",
    also: tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Turn `OSError`, `ValueError` and `also` into `kind`; an `FwcError` passes."""
    kinds: tuple[type[Exception], ...] = (OSError, ValueError, *also)
    try:
        yield
    except FwcError:
        raise
    except kinds as error:
        raise kind(f"{prefix}{reason(error)}{then}") from None


def home_expanded(name: str) -> Path:
    """The path with ~ expanded to the home folder, if the home folder is known."""
    return Path(os.path.expanduser(name))


@contextmanager
def whole_file(path: Path, mode: Literal["x", "xb"] = "x") -> Iterator[IO[Any]]:
    """Open a new file that replaces `path`, a link too, if the block raises no error."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial.unlink(missing_ok=True)
    try:
        with partial.open(mode, **({} if "b" in mode else _TEXT)) as file:
            yield file
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def in_shell(path: object) -> str:
    """A path or name as a command line has it."""
    return quote(str(path))


def json_text(content: Any) -> str:
    """`content` as the text of a JSON file; `ValueError` for NaN and infinities."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


PATH = (str, os.PathLike)


def new_path(path: Any, force: bool) -> Path:
    """The path of a file to write; `FwcError` if it exists, unless `force`."""
    require(path, PATH, "the file to write", "give its path")
    check_new(force, Path(path))
    return Path(path)


def check_new(force: bool, *paths: Path | None) -> None:
    """`FwcError` for a file that exists, unless `force`."""
    for path in paths:
        if path is not None and path.is_file() and not force:
            raise FwcError(
                f"{path} exists already: name another file, or overwrite it with --force"
            )


def write_whole(content: str | bytes, path: Path, subject: str = "") -> None:
    """Write to `path`: a regular file atomically, a pipe or a device directly; a text without
    keys.
    """
    if isinstance(content, str):
        content = redact(content, by_form=False).encode("utf-8", "backslashreplace")
    try:
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "its folder does not exist")
        if path.is_symlink():
            if not path.is_file():
                raise OSError(
                    errno.EINVAL, "it links to something other than a regular file"
                )
            path = path.resolve()
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        with whole_file(path, "xb") as file:
            file.write(content)
    except (OSError, ValueError, RuntimeError) as error:
        raise FwcError(f"cannot write {subject}{path}: {reason(error)}") from None
