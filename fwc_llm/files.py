"""Safe reading and writing: type and size are checked before reading; a write is complete or not made.

And where templates and task files lie (`resource_dir`).
"""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, Literal

from fwc_llm.errors import FwcError

LARGEST_FILE = 1 << 28  # bytes of what is read as a whole
_PACKAGE = Path(__file__).resolve().parent
_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "newline": ""}
is_file = os.path.isfile  # False, not an error, for a name that the system refuses


def read_text(path: Path, most: int = LARGEST_FILE) -> str:
    """The UTF-8 text of a file. `OSError` for a pipe or a device, which might never end, and for a huge file.

    `UnicodeDecodeError`, a `ValueError`, for bytes that are not UTF-8.
    """
    with open_binary(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content.decode("utf-8-sig")


def sha256(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal; `OSError` as `open_binary` has it."""
    with open_binary(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_binary(path: Path) -> BufferedReader:
    """The file, open to be read. `OSError` for a pipe or a device, at once: a pipe would be waited for."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path.open("rb")


def check_regular(handle: int, path: Path) -> None:
    """`OSError` for an open handle of a pipe or a device."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def resource_dir(name: str) -> Path:
    """The folder `name` ("prompts", "evals/tasks"): inside a wheel's package, beside that of a checkout."""
    packaged = _PACKAGE / "_resources" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def reason(error: Exception) -> str:
    """The cause of a file's error, in a few words."""
    return str(getattr(error, "strerror", None) or error)


@contextmanager
def failing_as(
    kind: type[FwcError], what: str, then: str = "", also: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Raise an `OSError`, a `ValueError` and what is `also` named as a `kind`: `what`, the reason, `then`."""
    kinds: tuple[type[Exception], ...] = (OSError, ValueError, *also)
    try:
        yield
    except FwcError:
        raise
    except kinds as error:
        raise kind(f"{what}{reason(error)}{then}") from None


def home_expanded(name: str) -> Path:
    """The path with ~ expanded to the home folder, if that exists."""
    return Path(os.path.expanduser(name))


@contextmanager
def whole_file(path: Path, mode: Literal["x", "xb"] = "x") -> Iterator[IO[Any]]:
    """Open a file that replaces `path` when the block ends without error; `OSError` if it cannot.

    It is always a new file: links are not followed. Characters that UTF-8 cannot hold are escaped.
    """
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


def json_text(content: Any) -> str:
    """`content` as a file of JSON; NaN must have become null before."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_whole(content: str | bytes, path: Path, what: str = "") -> None:
    """Write text or bytes to `path`: a file is replaced as a whole, a pipe or a device is written through.

    A link is followed to a regular file alone. `FwcError` with `what` in its text if it cannot be written.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")
    try:
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "its folder does not exist")
        if path.is_symlink():
            if not path.is_file():
                raise OSError(errno.EINVAL, "it links to something other than a regular file")
            path = path.resolve()
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        with whole_file(path, "xb") as file:
            file.write(content)
    except (OSError, ValueError, RuntimeError) as error:
        raise FwcError(f"cannot write {what}{path}: {reason(error)}") from None
