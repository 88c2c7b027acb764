"""Exceptions with exit codes; messages say what is wrong, where, and what to do.

The command line prints an `FwcError` as one line on standard error and exits with its `exit_code`.
"""

from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
    Set,
)
from functools import wraps
from inspect import BoundArguments, Signature, iscoroutinefunction, signature
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from fwc_llm.notices import spoken
from fwc_llm.sanitize import Fields, Json, kind_of, listed, redact

if TYPE_CHECKING:
    import pandas as pd


_MOST_NAMES = 20  # that a message lists
_C = TypeVar("_C")
_F = TypeVar("_F", bound=Callable[..., Any])


class Scored(Protocol):
    """The part of `fwc_llm.Result` that the error of a stopped run carries."""

    folder: Path
    data: Json  # results.json
    arms: list[Json]
    unanswered: int
    to_frame: Callable[[], "pd.DataFrame"]
    answers: Callable[[], "pd.DataFrame"]
    report: Callable[..., Path]


class FwcError(Exception):
    """Bad input, found before any request was sent: exit code 2. Base of all errors.

    `result` holds the scored answers if the error stopped a run that had begun; else None.
    """

    exit_code = 2
    result: Scored | None = None

    def __init__(self, *words: object) -> None:
        super().__init__(
            *(redact(word) if isinstance(word, str) else word for word in words)
        )

    def __str__(self) -> str:
        return spoken(super().__str__())


class InputError(FwcError, ValueError):
    """Input that the solver refuses; also a `ValueError`, as in scikit-learn."""


class InputTypeError(InputError, TypeError):
    """Values of a type that cannot be used so; also a `TypeError`."""


class Ambiguous:
    """Something without a truth value, so that `assert result` does not pass by accident.

    `instead` says what to write.
    """

    instead: ClassVar[str]

    def __bool__(self) -> bool:  # NoReturn would hide all code behind an assertion
        name = type(self).__name__
        raise InputTypeError(f"{name} is neither true nor false: {self.instead}")


class ProviderError(FwcError):
    """The provider rejected the run (key, quota, model, parameter): exit code 3."""

    exit_code = 3


class FunctionError(ProviderError):
    """A function gave no reply to an arm's first 12 rows, or to any; its cause is the exception."""


class IncompleteRunError(FwcError):
    """The run lacks replies, or too few replies have an answer: exit code 4."""

    exit_code = 4


class GateFailedError(FwcError):
    """A finished run meets a condition of `--fail-if`: exit code 5."""

    exit_code = 5


class GateUndecidedError(FwcError):
    """It stays undecided whether a finished run meets `--fail-if`: exit code 6."""

    exit_code = 6


class StorageError(FwcError):
    """A file cannot be written during a run (disk full, folder deleted): exit code 7."""

    exit_code = 7


class InterruptedRunError(FwcError):
    """The run was interrupted (Ctrl-C); the replies so far are saved: exit code 130."""

    exit_code = 130


def require(
    value: object, kinds: type | tuple[type, ...], name: str, remedy: str
) -> None:
    """`FwcError` unless a caller's value is of one of these types."""
    if not isinstance(value, kinds):
        raise FwcError(f"{name} is {kind_of(value)}: {remedy}")


def check_index(given: Any, table: Any, name: str) -> None:
    """`InputError` for a Series or frame of pandas whose index is not that of the table."""
    both = hasattr(given, "iloc") and hasattr(table, "iloc")
    if both and not given.index.equals(table.index):
        raise InputError(
            f"{name} has another index than the table: align the two, or give an array, which "
            f"goes by position"
        )


def check_call(
    takes: Signature, arguments: Sequence[Any], options: Fields, name: str
) -> BoundArguments:
    """`InputTypeError` with the available names for arguments that a function does not take."""
    try:
        return takes.bind(*arguments, **options)
    except TypeError as error:
        names = [name for name in takes.parameters if name != "self"]
        raise InputTypeError(f"{name}: {error}; there are {', '.join(names)}") from None


def checked(function: _F) -> _F:
    """Decorator: arguments that the function does not take, or of a wrong type, are `FwcError`s.

    Types are those of plain annotations: numbers, texts and lists of them, paths, functions,
    mappings, words.
    """
    takes = signature(function)
    name = function.__qualname__.removesuffix(".__init__")
    types = {key: one.annotation for key, one in takes.parameters.items()}
    # Calls of a shape, and values of a type, that were checked: replies come by the thousand.
    shapes = set[tuple[Any, ...]]()
    fitting = set[tuple[str, type]]()

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        shape = (len(arguments), *options)
        if shape not in shapes:
            check_call(takes, arguments, options, name)
            shapes.add(shape)
        given = dict(zip(types, arguments, strict=False)) | options
        for argument, value in given.items():
            if (argument, type(value)) not in fitting and argument in types:
                check_type(value, types[argument], f"{name}: {argument}")
                varied = isinstance(value, _VARIED) or callable(value)
                if not (varied or "Literal" in str(types[argument])):
                    fitting.add((argument, type(value)))
        return function(*arguments, **options)

    return call  # type: ignore[return-value]


def checked_class(kind: type[_C]) -> type[_C]:
    """Decorator: `checked` for a class that is made by its callers."""
    kind.__init__ = checked(kind.__init__)  # type: ignore[method-assign]
    return kind


# What a plain annotation takes, and how a message says it.
_PLAIN: Mapping[Any, tuple[Any, str]] = {
    bool: (bool, "True or False"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a text"),
    Path: (PathLike, "a path"),
    Callable: (Callable, "a function"),
    Mapping: (Mapping, "a mapping"),
    Hashable: (Hashable, "a name"),
    NoneType: (NoneType, "None"),
}


_VARIED = (list, tuple, Set)  # their items are checked, too


def check_type(value: object, annotation: Any, name: str) -> None:
    """`InputTypeError` if a plain annotation takes no such value; True and False are no numbers."""
    union = get_origin(annotation) in (Union, UnionType)
    members = get_args(annotation) if union else (annotation,)
    if {*members} <= {str, Path}:
        return  # names, which are looked up
    takes = list[str]()
    for member in members:
        kind = get_origin(member) or member
        if kind is Literal:
            fits = isinstance(value, str) and value in get_args(member)
            takes += map(repr, get_args(member))
        elif kind in _PLAIN:
            types, words = _PLAIN[kind]
            number = kind in (int, float) and isinstance(value, bool)
            # Nobody would await what is called for its effect.
            never = iscoroutinefunction(value) and get_args(member)[-1:] == (None,)
            fits = isinstance(value, types) and not number and not never
            takes.append(f"{words} without async" if never else words)
        elif kind in (Collection, Sequence, tuple) and get_args(member):
            item_kind = get_args(member)[0]
            if not isinstance(item_kind, type):
                return
            items = value if isinstance(value, list | tuple | Set) else (None,)
            fits = all(isinstance(item, item_kind) for item in items)
            what = "texts" if item_kind is str else f"{item_kind.__name__}s"
            takes.append(f"a list of {what}")
        else:
            return
        if fits:
            return
    given = repr(value) if isinstance(value, str) else kind_of(value)
    raise InputTypeError(f"{name} is {given}: give {' or '.join(takes)}")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """End a message about an unknown `name`: the nearest of `names`, or a list."""
    known = list(names)
    return near(name, known) or f"; there are {listed(known, _MOST_NAMES) or 'none'}"


def near(name: str, names: Sequence[str]) -> str:
    """End a message about an unknown `name`: the nearest of `names`, or ""."""
    from difflib import get_close_matches

    folded = {other.casefold(): other for other in names}
    name = name.casefold()
    begun = [other for other in folded if name and other.startswith(name)]
    for nearest in (*get_close_matches(name, folded, 1), *begun):
        return f"; did you mean {folded[nearest]!r}?"
    return ""
