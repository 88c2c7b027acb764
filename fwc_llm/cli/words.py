"""What the lists among the options mean: words, template sets, the arms of an ablation."""

from pathlib import Path
from typing import Any

from fwc_llm.errors import FwcError

ARMS = "zero,balanced,fwc"


def words(text: str | None) -> tuple[str, ...]:
    """The words of a comma-separated list."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def wordings(text: str | None) -> dict[str, Any]:
    """The template set, or several; a folder may have a comma in its name. None: the default set."""
    if text is None:
        return {}
    sets = (text,) if Path(text).is_dir() else words(text)
    if not sets:
        raise FwcError("--template names no template set: give default, paper, or a folder of your own")
    return {"template": sets[0], "templates": sets if len(sets) > 1 else ()}


def ablation(shots: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The arms of an ablation, and the flags with its repeats and strategy options where none are given."""
    from fwc_llm.runs import ablation as parts

    if shots not in (ARMS, ",".join(parts.ARMS)) or options["order"]:
        raise FwcError("--ablate names its arms and their orders: leave --shots and --order out")
    repeats = parts.REPEATS if options["repeats"] in (None, 1) else options["repeats"]
    pairs = [*(f"{key}={value}" for key, value in parts.OPTIONS.items()), *(options["option"] or ())]
    return ",".join(parts.ARMS), {**options, "repeats": repeats, "option": pairs}
