"""The block of rows: small, whole, and nothing that a page could take for markup."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from fwc_llm.models.base import Messages
from fwc_llm.report.rows import MOST_ROWS, Pack, chosen, json_block

SAID = {"answer": "yes", "reason": "", "p_yes": "0.25", "reply": "Yes"}


@given(st.text())
@example("</script><!--<script>\u2028\u2029&amp;\x00\ud800")
def test_a_block_ends_no_script_element(text: str) -> None:
    block = json_block({"reply": text})
    assert not set("<>&\u2028\u2029") & set(block)
    assert json.loads(block)["reply"] == text
    block.encode()  # nothing that UTF-8 cannot hold


def asked(text: str) -> tuple[Messages, Messages]:
    return [{"role": "system", "content": "Answer."}], [{"role": "user", "content": text}]


@given(st.lists(st.text(alphabet="ab: ", min_size=1), min_size=1, max_size=6))
def test_questions_come_back_whole_from_what_they_share(texts: list[str]) -> None:
    pack = Pack(["zero"])
    for number, text in enumerate(texts):
        pack.answer(0, pack.question(f"r{number}", 0, "A", "no"), SAID, asked(f"Record: {text} Answer."))
    found = pack.as_json()
    assert found["head"].startswith("Record: ")
    for number, text in enumerate(texts):
        middle = found["queries"][found["answers"][0]["query"][number]][0][2]
        assert found["head"] + middle + found["tail"] == f"Record: {text} Answer."
    assert found["fixed"] == [[["system", "", "Answer."]]]  # once, however many rows


def test_texts_are_stored_once_and_long_ones_are_cut() -> None:
    pack = Pack(["zero", "fwc"])
    for number in range(3):
        question = pack.question(f"r{number}", 0, "A", "no")
        pack.answer(0, question, SAID)
        pack.answer(1, question, SAID | {"reply": "x" * 100_000})
    found = pack.as_json()
    assert len(found["texts"]) == 3  # both replies, and none at all
    assert max(map(len, found["texts"])) <= 2_000
    assert any("it had 100,000 characters" in text for text in found["texts"])
    first = found["answers"][0]
    assert (first["answer"], list(first["p"]), list(first["reply"])) == ("111", [2500] * 3, [0] * 3)


def test_what_turns_text_around_or_steers_a_terminal_is_shown() -> None:
    pack = Pack(["zero\u202e"])
    question = pack.question("r\x1b[31m", 0, "A\u2066", "no")
    pack.answer(0, question, SAID | {"reply": "\u202eoN\x00"}, asked("a\u200fb"))
    shown = json.dumps(pack.as_json(), ensure_ascii=False)
    assert not {"\u202e", "\x1b", "\u2066", "\x00", "\u200f"} & set(shown)
    assert "⟨U+202E⟩oN⟨U+0000⟩" in shown


def test_the_page_has_room_for_so_much_and_no_more() -> None:
    pack = Pack(["zero"])
    for number in range(25):  # a message may have millions of characters, of which 65,536 are shown
        text = f"{number}" + "x" * 66_000
        pack.answer(0, pack.question(f"r{number}", 0, "A", "no"), SAID, ([], [
            {"role": "user", "content": text} for _ in range(20)
        ]))  # fmt: skip
    found = pack.as_json()
    assert len(json_block(found)) < 35_000_000
    assert found["answers"][0]["query"][0] >= 0
    assert found["answers"][0]["query"][-1] == -1


def test_a_sample_is_said_by_its_numbers_and_always_the_same() -> None:
    assert chosen(10_000, 3) == list(range(10_000))
    sample = chosen(50_000, 1)
    assert len(sample) == MOST_ROWS == len(set(sample))
    assert sample == sorted(sample) == chosen(50_000, 1)
    assert len(chosen(50_000, 40)) == 3_000  # arms count as well
