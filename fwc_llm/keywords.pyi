# Options as keywords, for type checkers alone: `python -m tests.test_types` writes this.
import collections.abc
import pathlib
import typing

class SettingsKeywords(typing.TypedDict, total=False):
    m: int
    epsilon: float | None
    n_test: int
    base_parity: float | None
    repeats: int
    seed: int
    api: typing.Literal["chat", "decisions", "systemone"]
    answer_format: typing.Literal["word", "json", "probability"]
    template: str
    templates: tuple[str, ...]
    samples: int
    counterfactual: bool
    probe: tuple[typing.Literal["names"], ...]
    threshold: float | str | None
    strategy_options: collections.abc.Mapping[str, typing.Any]
    margin: float
    min_group: int
    min_coverage: float
    unread: typing.Literal["worst", "as-no", "ignore"]
    cluster: str | None
    weight: str | None
    given: str | None
    assist: bool
    against: str

class ClientKeywords(typing.TypedDict, total=False):
    base_url: str | None
    api_key_env: str | None
    params: collections.abc.Mapping[str, typing.Any]
    max_tokens: int | None
    logprobs: bool
    no_watch: bool
    strict: bool
    rpm: float | None
    deadline: float
    concurrency: int
    batch: bool
    finish_live: bool
    max_cost: float | None
    prices: str | pathlib.Path | None

class StrategyKeywords(typing.TypedDict, total=False):
    column_weights: collections.abc.Mapping[str, float] | str | None
    crossed: bool
    max_iter: int
    max_passes: int
    metric: typing.Literal["l1", "l2"]
    n_init: int | None
    penalty: float | None
    prove: bool
    rows: str | collections.abc.Sequence[str]
    slots: collections.abc.Mapping[typing.Any, int] | str | None
    within: typing.Literal["all", "cell"]

class EvaluateKeywords(SettingsKeywords, ClientKeywords, total=False): ...
