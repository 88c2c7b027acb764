"""Labels of a chart stand beside each other, however the marks crowd."""

from itertools import combinations

from fwc_llm.report.html.labels import LINE, place_labels, wrapped
from hypothesis import given
from hypothesis import strategies as st

FRAME = (48.0, 4.0, 338.0, 600.0)
PLACES = st.tuples(st.floats(50, 330), st.floats(10, 590))


@given(st.lists(PLACES, min_size=1, max_size=12), st.sampled_from(["zero", "logistic, fwc's examples"]))
def test_no_label_covers_another_or_leaves_the_frame(places: list[tuple[float, float]], name: str) -> None:
    marks = [{"x": x, "y": y, "name": name} for x, y in places]
    free = place_labels(marks, [], FRAME)
    assert free
    boxes = []
    for mark in marks:
        width = 7.3 * max(map(len, mark["lines"]))
        left = mark["label_x"] - {"start": 0, "middle": width / 2, "end": width}[mark["anchor"]]
        boxes.append(
            (left, mark["label_y"] - 11, left + width, mark["label_y"] - 11 + LINE * len(mark["lines"]))
        )
    for left, top, right, bottom in boxes:
        assert FRAME[0] - 0.01 <= left < right <= FRAME[2] + 0.01
        assert FRAME[1] - 0.01 <= top < bottom <= FRAME[3] + 0.01
    for a, b in combinations(boxes, 2):
        assert min(a[2], b[2]) - max(a[0], b[0]) < 0.02 or min(a[3], b[3]) - max(a[1], b[1]) < 0.02


def test_a_chart_that_is_full_says_so() -> None:
    marks = [{"x": 60.0, "y": 20.0, "name": "a long name indeed"} for _ in range(4)]
    assert not place_labels(marks, [], (48.0, 4.0, 200.0, 40.0))


@given(st.text())
def test_names_are_broken_at_spaces_and_cut(name: str) -> None:
    lines = wrapped(name)
    assert 1 <= len(lines) <= 3
    assert all(len(line) <= 30 for line in lines)
