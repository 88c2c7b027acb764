"""Tells functions and classifiers apart, so that a journal serves nobody else's answers.

A function is identified by its qualified name, its code and the values that its code reads: those
that it binds, closes over, has as attributes or takes from its module. Of these, lists, mappings
and other objects count by their type, because a function may fill them while it is asked.
"""

import dis
import hashlib
from collections.abc import Iterable, Mapping, Set
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.sanitize import described, kind_of

_PLAIN = (str, bytes, int, float, complex, type(None))
_STORES = {"STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR"}


def qualified_name(function: Any) -> str:
    """MODULE:NAME of a function, or of an object's class; NAME is qualified."""
    if isinstance(function, partial):
        inner = function.func
    else:
        inner = function
    if hasattr(inner, "__qualname__"):
        owner = inner
    else:
        owner = type(inner)
    return f"{getattr(owner, '__module__', None) or '?'}:{owner.__qualname__}"


def digest_of_function(function: Any) -> str:
    """16 hex digits of a function, a method, a `partial`, or an object that is called."""
    return hashlib.sha256(repr(_called(function, set())).encode()).hexdigest()[:16]


def digest_of_fitted(fitted: Any) -> str:
    """A digest of all values in an object; `FwcError` for one that cannot be pickled."""
    from joblib import hash as hash_of

    try:
        return str(hash_of(fitted))
    except Exception as error:
        raise FwcError(
            f"{kind_of(fitted)} cannot be told from another, because it cannot be pickled "
            f"({described(error)}): use functions of a module in it, no lambda"
        ) from None


def _called(value: Any, seen: set[int]) -> Any:
    """What a function is made of; `seen` has the ids of functions that call each other."""
    if isinstance(value, partial):
        bound = _content([value.args, value.keywords], seen)
        return [_called(value.func, seen), bound]
    if isinstance(value, MethodType):
        return [_called(value.__func__, seen), _attributes(value.__self__, seen)]
    if isinstance(value, FunctionType):
        return _function(value, seen)
    methods = [getattr(type(value), name, None) for name in ("ask_many", "__call__")]
    parts = [
        _function(item, seen) for item in methods if isinstance(item, FunctionType)
    ]
    return [qualified_name(value), parts, _attributes(value, seen)]


def _function(function: FunctionType, seen: set[int]) -> Any:
    name = qualified_name(function)
    if id(function) in seen:
        return name
    seen.add(id(function))
    codes = [*_codes(function.__code__)]
    read = dict.fromkeys(name for code in codes for name in code.co_names)
    variables = {n: function.__globals__[n] for n in read if n in function.__globals__}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    variables |= {n: cell.cell_contents for n, cell in cells}
    kept = {n: variables[n] for n in variables.keys() - _stored([function])}
    defaults = _content([function.__defaults__, function.__kwdefaults__], seen)
    body = [[code.co_code, _content(code.co_consts, seen)] for code in codes]
    return [name, body, [*read], _values(kept, name, seen), defaults]


def _codes(code: CodeType) -> Any:
    """A function's code, and that of the functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _stored(functions: Iterable[FunctionType]) -> set[str]:
    """The names of variables and attributes that functions change: counters, no parameters."""
    return {
        step.argval
        for function in functions
        for code in _codes(function.__code__)
        for step in dis.get_instructions(code)
        if step.opname in _STORES
    }


def _attributes(owner: Any, seen: set[int]) -> Any:
    attributes = getattr(owner, "__dict__", {})
    methods = [
        item
        for name, item in vars(type(owner)).items()
        if isinstance(item, FunctionType) and name != "__init__"
    ]
    kept = {name: attributes[name] for name in attributes.keys() - _stored(methods)}
    return _values(kept, qualified_name(owner), seen)


def _values(variables: Mapping[str, Any], owner: str, seen: set[int]) -> Any:
    """Variables that code reads; functions of other packages than `owner` count by name."""
    package = owner.partition(":")[0].partition(".")[0]
    found = []
    for name, value in sorted(variables.items()):
        by_name = isinstance(value, list | Mapping | Set)
        if callable(value):
            by_name = not qualified_name(value).startswith(package)
        found.append(
            [name, qualified_name(value) if by_name else _content(value, seen)]
        )
    return found


def _content(value: Any, seen: set[int]) -> Any:
    """A value that cannot change, or is no state: containers by what they hold."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, list | tuple):
        return [_content(item, seen) for item in value]
    if isinstance(value, Set):
        return sorted(repr(_content(item, seen)) for item in value)
    if isinstance(value, Mapping):
        return [_content(pair, seen) for pair in value.items()]
    if isinstance(value, FunctionType | MethodType | partial):
        return _called(value, seen)
    if hasattr(value, "get_params") or hasattr(value, "__array_interface__"):
        return digest_of_fitted(value)
    return qualified_name(value)
