"""What run.json, results.json and questions must hold for everything that reads them; more is allowed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from fwc_llm.errors import FwcError
from fwc_llm.models.base import UsageKey
from fwc_llm.runs.settings import Settings
from fwc_llm.schema import check

_Count = Annotated[int, Field(ge=0, lt=2**53)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError("a name is there twice")
    return names


_Names = Annotated[list[str], AfterValidator(_distinct)]


class _Read(BaseModel):
    model_config = ConfigDict(strict=True)


class _Counted(_Read):
    read: _Count
    kept: _Count
    lost: _Count
    reasons: dict[str, _Count]
    group: str = ""


class _Rows(_Counted):
    groups: list[_Counted]
    warning: str | None = None


_Variation = dict[Literal["family", "order", "template"], str]


class _People(_Read):
    group: str
    no: _Count
    yes: _Count


def _settings(content: dict[str, Any]) -> dict[str, Any]:
    """The settings with their types, and the defaults of those that an earlier version lacks."""
    known = {name: value for name, value in content.items() if name in Settings.model_fields}
    try:
        return content | Settings(**known).as_json()
    except FwcError as error:
        raise ValueError(str(error)) from None


class _Run(_Read):
    """What run.json and results.json both say."""

    task: str
    model: str
    simulated: bool
    simulated_answers: bool | None = None
    reference: bool | None = None
    local: bool | None = None
    rows: _Rows | None = None
    untrue: dict[str, str] | None = None


class Described(_Run):
    """run.json."""

    arms: Annotated[_Names, Field(min_length=1)]
    settings: Annotated[dict[str, Any], AfterValidator(_settings)]
    title: str | None = None
    fingerprint: str | None = None
    created: str | None = None
    command: str | None = None
    task_file: str | None = None
    task_folder: str | None = None
    population: list[_People] | None = None
    designed: bool | None = None
    no_rows: bool | None = None
    protected: _Names | None = None
    parameters: dict[str, Any] | None = None
    sources: dict[str, str] | None = None
    versions: dict[str, str] | None = None
    calls: _Count | None = None
    ended: str | None = None
    epochs: _Count | None = None
    variations: dict[str, _Variation] | None = None


class _ChosenThreshold(_Read):
    threshold: _Number | None = None
    rows: _Count | None = None
    known: _Count | None = None


class _ArmThreshold(_Read):
    ties: _Count
    unknown: _Count
    per_repeat: list[_ChosenThreshold]


class _Wording(_Read):
    n: _Count
    contradictions: _Count
    yes_to_both: _Count
    no_to_both: _Count
    mean_distance: _Number | None = None


class _ArmResults(_Read):
    arm: str
    accuracy: _Number | None = None
    coverage: _Number | None = None
    threshold: _ArmThreshold | None = None
    wordings: dict[str, _Wording] | None = None


_Usage = dict[UsageKey, Annotated[int, Field(ge=0)]]


class Results(_Run):
    """results.json."""

    arms: list[_ArmResults]
    api: str | None = None
    threshold: str | _Number | None = None
    requests: _Count | None = None
    unanswered: _Count | None = None
    samples: _Count | None = None
    usage: _Usage | None = None
    batch_usage: _Usage | None = None
    stopped: str | None = None
    returned_models: _Names | None = None


class _Question(_Read):
    arm: str
    row: str
    variant: str
    group: str
    repeat: Annotated[int, Field(ge=0, lt=1_000_000)]
    label: Literal["yes", "no"]


def check_results(content: Mapping[str, Any], path: Path) -> None:
    """Refuse the content of a results.json that lacks what its readers need."""
    check(Results, content, f"{path} is damaged (`fwc-llm rescore {path.parent}` writes it again)")


def check_described(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the content of a run.json, its settings with their types."""
    return {**content, "settings": check(Described, content, f"{path} is damaged").settings}


def is_question(row: Mapping[str, Any]) -> bool:
    """Whether this is a question of a run."""
    try:
        _Question.model_validate(row)
    except ValidationError:
        return False
    return True
