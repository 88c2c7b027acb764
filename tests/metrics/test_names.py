"""Columns of names as numbers: they answer as arrays of texts do."""

import numpy as np
import pytest

from fwc_llm.metrics.names import Names, joined, levels_of, numbered


@pytest.mark.parametrize("seed", range(20))
def test_names_are_compared_chosen_and_listed_as_texts_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = rng.choice(["b", "a", "", "Ä & z", "a ", "yes"], int(rng.integers(1, 40)))
    names = Names.of(texts)
    here = rng.random(len(texts)) < 0.5
    places = rng.integers(0, len(texts), 7)
    assert len(names) == len(texts)
    assert names.shape == texts.shape
    assert names.tolist() == texts.tolist()
    np.testing.assert_array_equal(names == "a", texts == "a")
    np.testing.assert_array_equal(names != "nobody", texts != "nobody")
    np.testing.assert_array_equal(names == Names.of(texts[::-1]), texts == texts[::-1])
    np.testing.assert_array_equal(np.asarray(names[here]), texts[here])
    np.testing.assert_array_equal(np.asarray(names[places]), texts[places])
    assert names[int(places[0])] == texts[places[0]]
    np.testing.assert_array_equal(np.asarray(names.where(here)), np.where(here, texts, ""))
    assert names.mapped(str.strip).tolist() == [text.strip() for text in texts]
    found, place = np.unique(texts[here], return_inverse=True)
    assert levels_of(names[here])[0] == found.tolist() == levels_of(texts[here])[0]
    np.testing.assert_array_equal(names[here].levels[1], place)
    np.testing.assert_array_equal(np.argsort(names.in_order, kind="stable"), np.argsort(texts, kind="stable"))
    counts = {str(text): int((texts == text).sum()) for text in dict.fromkeys(texts.tolist())}
    assert list(names.counts().items()) == list(counts.items())
    order = ["yes", "a"]
    strangers = [text for text in names[here].places(order).tolist() if text > 1]
    assert len(set(strangers)) == len({text for text in texts[here].tolist() if text not in order})
    np.testing.assert_array_equal(names[here].places(order) == 1, texts[here] == "a")


@pytest.mark.parametrize("seed", range(10))
def test_columns_are_numbered_alike_in_the_order_in_which_names_come(seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = Names.of(rng.choice(list("dcabe"), 30))
    alike = [whole[rng.permutation(30)[:12]] for _ in range(3)]
    apart = [Names.of(one.tolist()) for one in alike]  # each with names of its own
    known: dict[str, int] = {}
    expected = [[known.setdefault(text, len(known)) for text in one.tolist()] for one in alike]
    for columns in (alike, apart):
        assert [found.tolist() for found in numbered(columns)] == expected


def test_columns_are_joined() -> None:
    first, second, third = (Names.of(list(texts)) for texts in ("abab", "xxyy", "1111"))
    assert joined([first, second, third], " & ").tolist() == [
        "a & x & 1",
        "b & x & 1",
        "a & y & 1",
        "b & y & 1",
    ]
    assert joined([first], " & ").tolist() == list("abab")


def test_few_names_take_a_byte_each() -> None:
    assert Names.of(np.array(["Female", "Male"] * 1000)).codes.nbytes == 2000
    assert Names.all_one("", 1000).codes.nbytes == 1000
