"""Tells functions and classifiers apart, so that a journal serves nobody else's answers.

A function is identified by its qualified name, its code and the values that its code reads: those
that it binds, closes over, has as attributes or takes from its module. Of these, lists, sets and
mappings that the code changes count by their type, because it fills them while it is asked; so do
objects of other packages.
"""

import dis
import hashlib
import pickle
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.sanitize import Fields, described, kind_of

_CALLED = ("ask_many", "__call__")  # of an object that is a model
_PLAIN = (str, bytes, int, float, complex, type(None))
_READS = {"LOAD_GLOBAL", "LOAD_NAME"}
_STORES = {"STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR"}
_STORES_ITEM = {"STORE_SUBSCR", "DELETE_SUBSCR"}
_FILLS = [
    "add",
    "append",
    "clear",
    "discard",
    "extend",
    "insert",
    "move_to_end",
    "pop",
    "popitem",
    "remove",
    "setdefault",
    "update",
]


def qualified_name(function: Any) -> str:
    """MODULE:NAME of a function, or of an object's class; NAME is qualified."""
    target = function.func if isinstance(function, partial) else function
    if not hasattr(target, "__qualname__"):
        target = type(target)
    return f"{getattr(target, '__module__', None) or '?'}:{target.__qualname__}"


def digest_of_function(function: Any) -> str:
    """16 hex digits of a function, a method, a `partial`, or an object that is called."""
    parts = _Parts(function).of(function)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def digest_of_fitted(fitted: Any) -> str:
    """A digest of all values in an object; `FwcError` for one that cannot be pickled."""
    from joblib.hashing import NumpyHasher
    from numpy.ma import MaskedArray

    class Hasher(NumpyHasher):  # type: ignore[misc]
        def save(self, obj: Any) -> None:  # joblib's own fails at a masked array
            super().save(obj.tolist() if isinstance(obj, MaskedArray) else obj)

    try:
        copied = pickle.loads(
            pickle.dumps(fitted)
        )  # with the strides that a file keeps
        return str(Hasher().hash(copied))
    except Exception as error:
        raise FwcError(
            f"{kind_of(fitted)} cannot be told from another, because it cannot be pickled "
            f"({described(error)}): use functions of a module in it, no lambda"
        ) from None


class _Parts:
    """What values are made of, as lists of plain values; code of other packages by its name."""

    def __init__(self, function: Any) -> None:
        self._package = _package(qualified_name(function))
        self._seen = set[int]()

    def of(self, value: Any) -> Any:
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, list | tuple):
            return [self.of(item) for item in value]
        if isinstance(value, Set):
            return sorted(repr(self.of(item)) for item in value)
        if isinstance(value, Mapping):
            return self.of([*value.items()])
        if isinstance(value, CodeType):
            return self.of([value.co_code, value.co_names, value.co_consts])
        if isinstance(value, partial):
            return self.of([value.func, value.args, value.keywords])
        if isinstance(value, MethodType):
            return [self.of(value.__func__), self._attributes(value.__self__)]
        if hasattr(value, "get_params") or hasattr(value, "__array__"):
            return digest_of_fitted(value)
        name = qualified_name(value)
        is_seen = id(value) in self._seen or isinstance(value, type)
        if is_seen or _package(name) != self._package:
            return name
        self._seen.add(id(value))
        if isinstance(value, FunctionType):
            return [name, *self._function(value)]
        methods = [getattr(type(value), method, None) for method in _CALLED]
        functions = [method for method in methods if isinstance(method, FunctionType)]
        return [name, self.of(functions), self._attributes(value)]

    def _function(self, function: FunctionType) -> list[Any]:
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        inner = {name: cell.cell_contents for name, cell in cells}
        steps = [*_steps(code)]
        read = {step.argval for step in steps if step.opname in _READS}
        outer = {
            name: item for name, item in function.__globals__.items() if name in read
        }
        defaults = [function.__defaults__, function.__kwdefaults__]
        return [self.of(code), self.of(defaults), self._kept(outer | inner, steps)]

    def _attributes(self, owner: Any) -> Any:
        steps = [
            step
            for name, method in vars(type(owner)).items()
            if name != "__init__" and isinstance(method, FunctionType)
            for step in _steps(method.__code__)
        ]
        return self._kept(getattr(owner, "__dict__", {}), steps)

    def _kept(self, variables: Fields, steps: Sequence[dis.Instruction]) -> Any:
        """The variables that no step changes; a counter or a cache is no parameter."""
        stored = {step.argval for step in steps if step.opname in _STORES}
        filled = _filled(steps)
        parts = []
        for name in sorted(variables.keys() - stored):
            value = variables[name]
            is_filled = name in filled and isinstance(value, list | Mapping | Set)
            parts.append([name, qualified_name(value) if is_filled else self.of(value)])
        return parts


def _filled(steps: Sequence[dis.Instruction]) -> set[Any]:
    """The names in `name[…] = …` and `name.append(…)`: steps that begin at one place."""
    begins = {
        _begin(step)
        for step in steps
        if step.opname in _STORES_ITEM or step.argval in _FILLS
    }
    return {step.argval for step in steps if _begin(step) in begins}


def _begin(step: dis.Instruction) -> tuple[Any, ...]:
    """Line and column in the source."""
    return (step.positions or ())[::2]


def _package(name: str) -> str:
    return name.partition(":")[0].partition(".")[0]


def _steps(code: CodeType) -> Iterator[dis.Instruction]:
    """The instructions of a function, and of the functions within it."""
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _steps(constant)
