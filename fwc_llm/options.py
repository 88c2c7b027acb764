"""Options declared as fields of a model, with type, default and help.

Python's signatures and docstrings (`takes`), the command line (`fwc_llm.cli.flags`), experiment
files and run.json are generated from the fields. An option given as None is in `model_fields_set`,
too.
"""

import inspect
from collections.abc import Callable, Iterator
from textwrap import wrap
from typing import Any, Self, TypeVar, get_args

from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo

from fwc_llm.errors import FwcError, InputTypeError, did_you_mean, require
from fwc_llm.notices import spoken
from fwc_llm.sanitize import Fields, Json
from fwc_llm.validation import Checked, first_error

_F = TypeVar("_F", bound=Callable[..., Any])
_WIDTH = 110
_EXAMPLES = {
    "dict_type": ": give a mapping, such as {'name': 1}",
    "tuple_type": ": give a list, such as ['one', 'two']",
}


class Options(Checked):
    """Frozen options; an invalid value is an `FwcError` that names the option."""

    def __init__(self, /, *unnamed: Any, **values: Any) -> None:
        if unnamed:
            names = ", ".join(type(self).model_fields)
            raise InputTypeError(
                f"{type(self).__name__} takes options by name: {names}"
            )
        for name in values.keys() & type(self).model_fields:
            if _is_none(values[name], type(self).model_fields[name]):
                values[name] = None
        try:
            super().__init__(**values)
        except ValidationError as error:
            example = _EXAMPLES.get(error.errors()[0]["type"], "")
            raise FwcError(f"{first_error(error, values)}{example}") from None

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{cls.described()}"

    @property
    def chosen(self) -> Json:
        """The options that were given, without defaults."""
        return {name: value for name, value in self if name in self.model_fields_set}

    def updated(self, /, **changes: Any) -> Self:
        """A copy with `changes`, which count as given options."""
        if changes:
            return type(self)(**self.chosen | changes)
        return self

    @classmethod
    def described(cls) -> str:
        """The fields' help for docstrings, one paragraph for each field."""
        width = max(map(len, cls.model_fields)) + 2
        lines: list[str] = []
        for name, field in cls.model_fields.items():
            help = spoken(f"{field.description}{default_words(field)}")
            first, *others = wrap(help.replace("`none`", "None"), _WIDTH - 4 - width)
            lines += [
                f"{name:{width}}{first}",
                *(f"{'':{width}}{line}" for line in others),
            ]
        return "\n".join(lines)

    @classmethod
    def parameters(cls) -> Iterator[inspect.Parameter]:
        """The fields as keyword-only parameters with their defaults."""
        bare = cls()
        for name, field in cls.model_fields.items():
            yield inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=getattr(bare, name),
                annotation=field.annotation,
            )


# Panels of the help.
EXPERIMENT = "The experiment"
SERVICE = "The model and its service"
COST = "Cost"
VERDICT = "The verdict"
OUTPUT = "Output"
UNREAD_HELP = "Replies without an answer: assume the worst, count as-no, or ignore."


def option(
    default: Any,
    help: str,
    panel: str = EXPERIMENT,
    *,
    default_words: str = "",
    flag: str | None = None,
    none: bool | None = None,
    metavar: str | None = None,
    **checks: Any,
) -> Any:
    """Declare an option: a pydantic field with default, help and checks.

    `...` as `default` makes it required, a callable is a default factory. `default_words` is the
    default in words, `metavar` the value's name in the help. `flag` is the
    option's name on the command line if it differs from the field's; "" keeps the option off the
    command line. `none` tells whether the command line takes the word `none` as None; by default
    yes, unless None is the default.
    """
    kind = "default_factory" if callable(default) else "default"
    if none is None:
        none = default is not None
    facts: Json = {
        "panel": panel,
        "default_words": default_words,
        "flag": flag,
        "none": none,
        "metavar": metavar,
    }
    return Field(**{kind: default}, description=help, json_schema_extra=facts, **checks)


def facts_of(field: FieldInfo) -> Fields:
    """The `panel`, `default_words`, `flag`, `none` and `metavar` of a field."""
    if isinstance(field.json_schema_extra, dict):
        return field.json_schema_extra
    return {}


def _is_none(value: Any, field: FieldInfo) -> bool:
    """Whether a value is the word `none` where it means None."""
    if not isinstance(value, str) or value.strip().lower() != "none":
        return False
    return facts_of(field)["none"] and type(None) in get_args(field.annotation)


def default_words(field: FieldInfo) -> str:
    """The default in words, to append to a help text; "" without one to show."""
    plain = (
        field.default_factory is None
        and not field.is_required()
        and field.default not in (None, ())
        and field.default is not False
    )
    words = facts_of(field)["default_words"] or (str(field.default) if plain else "")
    return f" [default: {words}]" if words else ""


def takes(*models: type[Options]) -> Callable[[_F], _F]:
    """Decorator: add the models' fields to signature and docstring."""

    def decorate(function: _F) -> _F:
        described = [f"{model.__name__}:\n\n{model.described()}" for model in models]
        function.__doc__ = "\n\n".join(
            [inspect.cleandoc(function.__doc__ or ""), *described]
        )
        return extended(
            function,
            [parameter for model in models for parameter in model.parameters()],
        )

    return decorate


def extended(function: _F, parameters: list[inspect.Parameter]) -> _F:
    """Replace `**options` in a function's signature by `parameters`."""
    signature = inspect.signature(function)
    kept = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    made = signature.replace(parameters=[*kept, *parameters])
    function.__signature__ = made  # type: ignore[attr-defined]
    return function


def split_options(
    function: Callable[..., Any], options: Fields, *values: Options
) -> list[Any]:
    """Update each of `values` with the options among its fields; refuse other options."""
    for value in values:
        require(value, Options, "settings or client", "give Settings(…) and Client(…)")
    names = [name for value in values for name in type(value).model_fields]
    for name in options:
        if name not in names:
            known = inspect.signature(function).parameters
            raise FwcError(f"there is no option {name!r}{did_you_mean(name, known)}")
    changed = (
        {n: options[n] for n in type(value).model_fields if n in options}
        for value in values
    )
    return [
        value.updated(**changes) for value, changes in zip(values, changed, strict=True)
    ]
