"""What readings found is kept while there is room; the oldest fits go first."""

import numpy as np

from fwc_llm.coreset.streaming.nearest.kept import Kept, Known

LABEL = np.array([-1, 0, 253] * 100)
GAP = np.array([0, 1e-3, 7.77] * 100, np.float32)


def known(reading, m=254):
    return Known.of(reading, np.zeros((m, 1)), np.zeros(2), LABEL, GAP)


def test_what_is_known_comes_back_and_gaps_are_rounded_down():
    for m in (254, 300, 70_000):
        found = known("one", m)
        np.testing.assert_array_equal(found.label, LABEL)
        assert (found.gap <= GAP).all()
        np.testing.assert_allclose(found.gap, GAP, rtol=0.01)


def test_old_fits_go_where_there_is_no_room():
    held, size = Kept(room=2200), known("one").nbytes
    held.keep("a", 0, known("one"))
    assert held.find("a", 0) is not None
    assert held.find("a", 1) is None
    assert held.find("b", 0) is None
    held.keep("a", 0, known("two"))  # in the place of the other one
    held.keep("b", 0, known("three"))
    assert 2 * size < 2200 < 3 * size
    assert held.find("a", 0).reading == "two"
    held.keep("b", 1, known("three"))
    assert held.find("a", 0) is None
    assert held.find("b", 0) is not None
    assert held.find("b", 1) is not None
    held.keep("b", 2, known("three"))  # no room, as its own fit stays
    assert held.find("b", 2) is None
    held.keep("b", 1, known("four", 300))  # larger than it was, but there is room
    assert held.find("b", 1).reading == "four"
    held.forget("b")
    assert held.find("b", 0) is None
    held.keep("c", 0, known("five"))
    held.keep("c", 1, known("five"))  # what was forgotten takes no room
    assert held.find("c", 1) is not None
