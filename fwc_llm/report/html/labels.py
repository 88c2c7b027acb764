"""Places for the labels of a chart: beside their marks where there is room, and not on each other."""

from collections.abc import Sequence
from typing import Any

LINE = 14.0  # the height of a line of text
_GLYPH = 7.3  # an average glyph's width, bold ones included
_OFF = 1000.0  # how much worse a unit outside of the frame is than one that covers something
_STEP = 6.0  # of the search through the whole frame
Box = tuple[float, float, float, float]


def box(x: float, y: float, width: float, height: float) -> Box:
    """Return a box as left, top, right, bottom."""
    return x, y, x + width, y + height


def place_labels(marks: Sequence[dict[str, Any]], taken: list[Box], frame: Box) -> bool:
    """Give each mark its label: `lines`, `label_x`, `label_y`, `anchor`, and a `leader` where it is far off.

    A label that finds no free place beside its mark goes to the nearest free one in the frame. Returns
    whether every label is free: nothing in `taken`, and no other label, is covered.
    """
    free = True
    for mark in marks:
        mark["lines"] = lines = wrapped(mark["name"])
        width, height = _GLYPH * max(map(len, lines)), LINE * len(lines)
        places = (box(*one, width, height) for one in _near(mark, width, height))
        near = next((one for one in places if _cost(one, taken, frame) == 0), None)
        left, top = near[:2] if near else _nearest(mark, width, height, taken, frame)
        own = box(left, top, width, height)
        free = free and _cost(own, taken, frame) == 0
        taken.append(own)
        _write(mark, own, far=near is None)
    return free


def _near(mark: dict[str, Any], width: float, height: float) -> list[tuple[float, float]]:
    x, y = mark["x"], mark["y"]
    return [
        (x + 10, y - height / 2),
        (x - 10 - width, y - height / 2),
        (x - width / 2, y - 10 - height),
        (x - width / 2, y + 9),
        (x + 7, y - 8 - height),
        (x + 7, y + 7),
        (x - 7 - width, y - 8 - height),
        (x - 7 - width, y + 7),
    ]


def _nearest(
    mark: dict[str, Any], width: float, height: float, taken: Sequence[Box], frame: Box
) -> tuple[float, float]:
    """The free place in the frame that is closest to the mark; without one, what covers least."""
    best, least = (frame[0], frame[1]), float("inf")
    across = max(1, int((frame[2] - frame[0] - width) / _STEP) + 1)
    down = max(1, int((frame[3] - frame[1] - height) / _STEP) + 1)
    for column in range(across):
        for row in range(down):
            left, top = frame[0] + _STEP * column, frame[1] + _STEP * row
            away = abs(left + width / 2 - mark["x"]) + 2 * abs(top + height / 2 - mark["y"])
            cost = 100 * _cost(box(left, top, width, height), taken, frame) + away
            if cost < least:
                cost += _crossed(mark, (left + width / 2, top + height / 2), taken)
            if cost < least:
                best, least = (left, top), cost
    return best


def _crossed(mark: dict[str, Any], end: tuple[float, float], taken: Sequence[Box]) -> float:
    """How much the line from a mark to its label covers, the mark's own surroundings left out."""
    found = 0.0
    for share in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        x, y = (place + share * (to - place) for place, to in zip((mark["x"], mark["y"]), end, strict=True))
        found += 40.0 * any(left < x < right and top < y < bottom for left, top, right, bottom in taken)
    return found


def _write(mark: dict[str, Any], own: Box, far: bool) -> None:
    left, top, right, bottom = own
    x, y = mark["x"], mark["y"]
    middle = (left + right) / 2
    anchor = "start" if left > x else "end" if right < x else "middle"
    mark["anchor"] = anchor
    mark["label_x"] = round({"start": left, "end": right, "middle": middle}[anchor], 2)
    mark["label_y"] = round(top + 11, 2)
    ends = min(max(x, left), right), bottom if bottom < y else top if top > y else (top + bottom) / 2
    mark["leader"] = (round(ends[0], 2), round(ends[1], 2)) if far else None


def wrapped(name: str, longest: int = 24) -> list[str]:
    """Return the name in at most three lines, broken at spaces; what is longer is cut."""
    lines = [""]
    for word in name.split():
        if lines[-1] and len(lines[-1]) + len(word) >= longest:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    cut = [line if len(line) <= longest + 4 else line[: longest + 3] + "…" for line in lines[:3]]
    if len(lines) > 3:
        cut[-1] += " …"
    return cut


def _cost(own: Box, taken: Sequence[Box], frame: Box) -> float:
    """The area covered, and much more for what lies outside the frame."""
    left, top, right, bottom = own
    outside = (
        max(0.0, frame[0] - left)
        + max(0.0, right - frame[2])
        + max(0.0, frame[1] - top)
        + max(0.0, bottom - frame[3])
    )
    covered = sum(
        max(0.0, min(right, t[2]) - max(left, t[0])) * max(0.0, min(bottom, t[3]) - max(top, t[1]))
        for t in taken
    )
    return covered + _OFF * outside
