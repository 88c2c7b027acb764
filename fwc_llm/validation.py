"""Pydantic models for files; a mistake becomes one line that names file and key."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from fwc_llm.errors import FwcError, did_you_mean
from fwc_llm.sanitize import LIKE_A_KEY

_LONGEST = 300  # characters of a part of a message


class Checked(BaseModel):
    """A frozen model that refuses unknown keys and suggests the nearest known key."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        keys = [
            field.alias or name
            for name, field in cls.model_fields.items()
            if not field.exclude
        ]
        for key in data if isinstance(data, Mapping) else ():
            if key not in keys:
                raise ValueError(
                    f"unknown key {key[:_LONGEST]!r}{did_you_mean(key, keys)}"
                )
        return data


AnyModel = TypeVar("AnyModel", bound=BaseModel)


def check(model: type[AnyModel], data: Any, where: str) -> AnyModel:
    """Validate `data`; the first mistake is an `FwcError` that begins with `where`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise FwcError(f"{where}: {first_error(error, data)}") from None
    except FwcError as error:  # of `Options`, which read their own mistakes
        raise FwcError(f"{where}: {error}") from None


def first_error(error: ValidationError, data: Any) -> str:
    """Describe the first mistake in `data`: its key, the fault, and the value found.

    List entries are identified by their `name` or `column`; without either, by their number from 1.
    """
    mistake = error.errors()[0]
    at = ""
    for step in mistake["loc"]:
        if isinstance(step, int):
            if isinstance(data, list) and step < len(data):
                data = data[step]
            else:
                data = None
            entry = data if isinstance(data, dict) else {}
            at += f"[{entry.get('name', entry.get('column', step + 1))!r}]"
        else:
            if isinstance(data, dict):
                data = data.get(step)
            else:
                data = None
            at += f".{step}" if at else step
    message = mistake["msg"].removeprefix("Value error, ")
    if mistake["type"] == "missing":
        message = "it is missing"
    elif mistake["type"] != "value_error":
        value = repr(mistake["input"])[:_LONGEST]
        is_table = mistake["type"] == "dict_type" or "\n" in value
        if is_table or LIKE_A_KEY.search(value):  # never print a key such as "sk-…"
            value = f"a value of type {type(mistake['input']).__name__}"
        message = f"{message[:1].lower()}{message[1:]}; found {value}"
    return f"{at}: {message}" if at else message
