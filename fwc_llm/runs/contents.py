"""What the files of a run's folder must hold for everything that reads them: someone may have edited them."""

import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from fwc_llm.answers import Reason
from fwc_llm.errors import FwcError
from fwc_llm.untrusted import finite, whole

_Check = Callable[[Any], bool]
_MOST_REPEATS = 1_000_000
_REASONS = frozenset(get_args(Reason))
_CHECKED = frozenset(("repeat", "label", "answer", "reason", "threshold_answer"))


def check_described(content: Mapping[str, Any], path: Path) -> None:
    """Refuse a run.json that lacks what describes a run; further keys are nobody's concern."""
    _check(content, _DESCRIBED, path, "restore it, or begin a new run")


def check_results(content: Mapping[str, Any], path: Path, remedy: str) -> None:
    """Refuse a results.json that lacks what a report reads; `remedy` is the command that writes it again."""
    _check(content, _RESULTS, path, f"`{remedy}` writes it again")


def is_question(row: Mapping[str, Any]) -> bool:
    """Whether this is a question of a run."""
    return (
        all(isinstance(row[name], str) for name in ("arm", "row", "variant", "group"))
        and whole(row["repeat"], _MOST_REPEATS) is not None
        and row["label"] in {"yes", "no"}
    )


def answer_check(columns: Sequence[str]) -> Callable[[Sequence[str]], bool]:
    """Return what tells whether cells are a line of answers.csv, whose columns are these.

    Few lines differ in what is checked: each kind of line is looked at once.
    """
    known: set[tuple[str, ...]] = set()
    checked = operator.itemgetter(*(place for place, name in enumerate(columns) if name in _CHECKED))
    p_yes = columns.index("p_yes")

    def is_answer(cells: Sequence[str]) -> bool:
        if len(cells) != len(columns):
            return False
        kind = checked(cells)
        if kind not in known:
            if not _is_answer(dict(zip(columns, cells, strict=True))):
                return False
            known.add(kind)
        return not cells[p_yes] or _is_probability(cells[p_yes])

    return is_answer


def _is_answer(row: Mapping[str, str]) -> bool:
    repeat = row["repeat"]
    return (
        repeat.isascii()
        and repeat.isdigit()
        and len(repeat) < 8
        and row["label"] in {"yes", "no"}
        and row["answer"] in {"yes", "no", ""}
        and row["reason"] in _REASONS
        and row.get("threshold_answer", "") in {"yes", "no", ""}
    )


def _is_probability(text: str) -> bool:
    try:
        return 0.0 <= float(text) <= 1.0
    except ValueError:
        return False


def _check(content: Mapping[str, Any], rules: Mapping[str, tuple[bool, _Check]], path: Path, do: str) -> None:
    for name, (required, good) in rules.items():
        value = content.get(name)
        if value is None and not required:
            continue
        if not good(value):
            what = f"{name!r} is missing" if name not in content else f"{name!r} is {str(value)[:60]!r}"
            raise FwcError(f"{path} is damaged: {what}; {do}")


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _count(value: Any) -> bool:
    return whole(value) is not None


def _number(value: Any) -> bool:
    return value is None or finite(value) is not None


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value)) and len(set(value)) == len(value)


def _texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_text, value.values()))


def _each(good: _Check) -> _Check:
    return lambda value: isinstance(value, dict) and all(map(good, value.values()))


def _variation(value: Any) -> bool:
    return _texts(value) and set(value) == {"family", "order", "template"}


def _settings(value: Any) -> bool:
    if not isinstance(value, dict) or not all(
        _count(value.get(name)) for name in ("n_test", "repeats", "seed")
    ):
        return False
    return all(good(value[name]) for name, good in _SETTINGS.items() if name in value)


def _usage(value: Any) -> bool:
    known = {"prompt_tokens", "completion_tokens", "cached_tokens"}
    return _each(lambda n: isinstance(n, int) and n >= 0)(value) and set(value) <= known


def _counted(value: Any) -> bool:
    return isinstance(value, dict) and (
        all(_count(value.get(name)) for name in ("read", "kept", "lost"))
        and isinstance(value.get("reasons"), dict)
        and all(map(_count, value["reasons"].values()))
    )


def _rows(value: Any) -> bool:
    return (
        _counted(value)
        and isinstance(value.get("groups"), list)
        and all(_counted(group) and _text(group.get("group")) for group in value["groups"])
        and (value.get("warning") is None or _text(value["warning"]))
    )


def _threshold(value: Any) -> bool:
    """What an arm of results.json says of its threshold."""
    return (
        isinstance(value, dict)
        and all(map(_count, (value.get("ties"), value.get("unknown"))))
        and isinstance(value.get("per_repeat"), list)
        and all(
            isinstance(one, dict)
            and _number(one.get("threshold"))
            and all(one.get(name) is None or _count(one[name]) for name in ("rows", "known"))
            for one in value["per_repeat"]
        )
    )


def _wording(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(_count(value.get(name)) for name in ("n", "contradictions", "yes_to_both", "no_to_both"))
        and _number(value.get("mean_distance"))
    )


def _population(value: Any) -> bool:
    if not isinstance(value, list) or not all(map(_object, value)):
        return False
    counted = all(_count(one.get(label)) for one in value for label in ("no", "yes"))
    return counted and _names([one.get("group") for one in value])


def _arm(value: Any) -> bool:
    return isinstance(value, dict) and all(good(value.get(name)) for name, good in _ARM.items())


_SETTINGS: Mapping[str, _Check] = {
    "m": _count,
    "epsilon": _number,
    "base_parity": _number,
    "template": _text,
    "weights": _text,
    "redraw": _text,
    "counterfactual": _flag,
    "threshold": lambda value: value in (None, "fit", "base-rate") or finite(value) is not None,
    "threshold_rows": lambda value: value is None or _count(value),
    "api": _text,
    "consistency": _flag,
    "orders": lambda value: isinstance(value, list) and all(map(_text, value)),
    "templates": lambda value: isinstance(value, list) and all(map(_text, value)),
    "samples": lambda value: _count(value) and value > 0,
    "strategy_options": _object,
}
_DESCRIBED: Mapping[str, tuple[bool, _Check]] = {
    **dict.fromkeys(("task", "model"), (True, _text)),
    "simulated": (True, _flag),
    "arms": (True, lambda value: _names(value) and bool(value)),
    "settings": (True, _settings),
    **dict.fromkeys(("title", "fingerprint", "created", "command"), (False, _text)),
    **dict.fromkeys(("task_file", "task_folder"), (False, _text)),
    "rows": (False, _rows),
    "population": (False, _population),
    "designed": (False, _flag),
    "simulated_answers": (False, _flag),
    **dict.fromkeys(("no_rows", "reference", "local"), (False, _flag)),
    "protected": (False, _names),
    "parameters": (False, _object),
    **dict.fromkeys(("sources", "versions", "untrue"), (False, _texts)),
    **dict.fromkeys(("calls", "epochs"), (False, _count)),
    "variations": (False, _each(_variation)),
}
_ARM: Mapping[str, _Check] = {
    "arm": _text,
    "accuracy": _number,
    "coverage": _number,
    "threshold": lambda value: value is None or _threshold(value),
    "wordings": lambda value: value is None or _each(_wording)(value),
}
_RESULTS: Mapping[str, tuple[bool, _Check]] = {
    **dict.fromkeys(("task", "model"), (True, _text)),
    "api": (False, _text),
    "threshold": (False, lambda value: _text(value) or finite(value) is not None),
    "simulated": (True, _flag),
    "simulated_answers": (False, _flag),
    **dict.fromkeys(("reference", "local"), (False, _flag)),
    "rows": (False, _rows),
    **dict.fromkeys(("requests", "unanswered", "samples"), (False, _count)),
    **dict.fromkeys(("usage", "batch_usage"), (False, _usage)),
    "stopped": (False, _text),
    "untrue": (False, _texts),
    "returned_models": (False, _names),
    "arms": (True, lambda value: isinstance(value, list) and all(map(_arm, value))),
}
