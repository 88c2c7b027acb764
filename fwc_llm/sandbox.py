"""The sandbox in which templates are rendered: no way out of it, and no work or memory without end.

Jinja's sandbox keeps a template from the system. A template folder of someone else's is also kept from
counting to a billion and from a text that fills the memory.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from jinja2 import Environment, FileSystemLoader, TemplateNotFound
from jinja2.exceptions import SecurityError
from jinja2.filters import do_round
from jinja2.loaders import split_template_path
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

_MOST_STEPS = 1_000_000  # lines of compiled templates that one rendering may run
_MOST_SECONDS = 3.0  # of a processor, for one rendering
_MOST_MEMORY = 1 << 29  # bytes beyond what the process has
_LONGEST_NUMBER = 10_000  # bits
_MOST_DIGITS = 100  # that a number can be rounded to
# What no prompt needs, and what works for hours inside of one call.
_LEFT_OUT = ("pprint", "striptags", "urlize", "wordwrap", "xmlattr")
_OURS = str(Path(__file__).parent)


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which no number grows without end: a power is one step, however long it takes."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        del self.globals["lipsum"]
        for name in _LEFT_OUT:
            del self.filters[name]
        self.filters["round"] = _rounded

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
        real = os.path.realpath(os.path.join(self._root, *split_template_path(template)))
        # Reading a pipe would block.
        if not Path(real).is_relative_to(self._root) or not os.path.isfile(real):
            raise TemplateNotFound(template)
        return super().get_source(environment, template)


def _rounded(value: float, precision: int = 0, method: Any = "common") -> float:
    if abs(precision) > _MOST_DIGITS:  # a power of ten, however long it takes
        raise SecurityError(f"a number cannot be rounded to {precision} digits")
    return do_round(value, precision, method)


@contextmanager
def limited() -> Iterator[None]:
    """Render within bounds of work and, where the system can, of memory; beyond them `SecurityError`."""
    left, ends = _MOST_STEPS, time.thread_time() + _MOST_SECONDS

    def check(frame: FrameType, event: str, argument: Any) -> Any:
        if time.thread_time() > ends:
            raise SecurityError("it runs for too long")
        return check

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise SecurityError("it runs for too long")
        check(frame, event, argument)
        return step

    def begin(frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        return step if file.endswith(".j2") else None if file.startswith(_OURS) else check

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
