"""The sandbox in which templates are rendered: no way out of it, and no work or memory without end.

Jinja's sandbox keeps a template from the system. A template folder of someone else's is also kept from
counting to a billion and from a text that fills the memory.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from jinja2 import Environment, FileSystemLoader, TemplateNotFound
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

_MOST_STEPS = 1_000_000  # lines of compiled templates that one rendering may run
_MOST_MEMORY = 1 << 29  # bytes beyond what the process has
_LONGEST_NUMBER = 10_000  # bits


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which no number grows without end: a power is one step, however long it takes."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse products and powers of whole numbers that are too long to be of use."""
        if isinstance(left, int) and isinstance(right, int):
            power = operator == "**"
            bits = left.bit_length() * abs(right) if power else left.bit_length() + right.bit_length()
            if bits > _LONGEST_NUMBER:
                raise SecurityError("a number is too large")
        return super().call_binop(context, operator, left, right)


class BoundLoader(FileSystemLoader):
    """Loads what lies in its folder; a link in there does not lead out of it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._root = os.path.realpath(folder)

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        """The template's text, its path, and whether it is still the same."""
        source, path, same = super().get_source(environment, template)
        if not Path(os.path.realpath(path)).is_relative_to(self._root):
            raise TemplateNotFound(template)
        return source, path, same


@contextmanager
def limited() -> Iterator[None]:
    """Render within bounds of work and, where the system can, of memory; beyond them `SecurityError`."""
    left = _MOST_STEPS

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise SecurityError("it runs for too long")
        return step

    def begin(frame: FrameType, event: str, argument: Any) -> Any:
        return step if frame.f_code.co_filename.endswith(".j2") else None

    before = sys.gettrace()
    with _limited_memory():
        sys.settrace(begin)
        try:
            yield
        except MemoryError:
            raise SecurityError("it needs too much memory") from None
        finally:
            sys.settrace(before)


@contextmanager
def _limited_memory() -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = used + _MOST_MEMORY
    if soft != resource.RLIM_INFINITY:
        wanted = min(wanted, soft)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
