"""Where every row went: asked about, answered, not parsed, without a reply; of each group."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fwc_llm.metrics.answers import Answers
from fwc_llm.metrics.views import CROSSING, View


def accounting(answers: Answers, groups: tuple[str, ...], view: View) -> dict[str, dict[str, int]]:
    """Return of every level of one arm how many questions were asked, and what became of them.

    `questions` are `selected` (yes) and `not_selected` answers, `unparsed` ones, and those with `no_reply`.
    """
    level = view.level_of[answers.group.set_categories(groups).codes]
    unread, no_reply = np.isnan(answers.answer), answers.reason == "error"
    kinds = {
        "questions": np.ones(len(answers), dtype=bool),
        "selected": answers.answer == 1,
        "not_selected": answers.answer == 0,
        "unparsed": unread & ~no_reply,
        "no_reply": unread & no_reply,
    }
    counted = {name: np.bincount(level[here], minlength=len(view.levels)) for name, here in kinds.items()}
    return {
        name: {kind: int(counts[number]) for kind, counts in counted.items()}
        for number, name in enumerate(view.levels)
    }


def lost_of_levels(groups: Iterable[Mapping[str, Any]], view: View, width: int, place: int) -> dict[str, Any]:
    """Return the rows read, kept and lost of each level before the run, from those of the crossed groups.

    `place` is the attribute's place among `width` of them; groups of another width are left out.
    """
    found: dict[str, dict[str, int]] = {}
    for one in groups:
        parts = str(one["group"]).split(CROSSING)
        if not view.crossed and width > 1:
            if len(parts) != width:
                continue
            level = parts[place]
        else:
            level = str(one["group"])
        sums = found.setdefault(level, dict.fromkeys(("read", "kept", "lost"), 0))
        for name in sums:
            sums[name] += int(one[name])
    return found
