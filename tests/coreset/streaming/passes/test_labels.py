"""Labels are kept while there is room; the oldest readings go first."""

import numpy as np

from fwc_llm.coreset.streaming.passes.labels import Labels


def test_labels_come_back_and_old_ones_go():
    held = Labels(room=1000)
    label = np.array([-1, 0, 253] * 100)
    held.keep("one", 0, label, 254)
    np.testing.assert_array_equal(held.find("one", 0), label)
    assert held.find("one", 1) is None
    assert held.find("two", 0) is None
    held.keep("two", 0, label, 300)  # two bytes each
    assert held.find("one", 0) is not None
    held.keep("two", 1, label, 254)
    assert held.find("one", 0) is None
    np.testing.assert_array_equal(held.find("two", 1), label)
    held.keep("two", 2, label, 300)  # no room, as its own reading stays
    assert held.find("two", 2) is None
    held.forget("two")
    assert held.find("two", 0) is None
    held.keep("three", 0, label, 70_000)
    assert held.find("three", 0) is None
