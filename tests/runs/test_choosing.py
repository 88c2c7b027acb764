"""What is said while examples are chosen."""

from fwc_llm.runs.plan import Choosing


def test_how_many_choices_and_how_long() -> None:
    """The quick arm and the slow one each go on as they began."""
    said: list[str] = []
    now = 0.0
    steps = Choosing(2, 3, said.append, lambda: now)
    for repeat in range(3):
        for arm, seconds in (("balanced", 0.0), ("fwc", 30.0)):
            steps.begin(arm, repeat)
            now += seconds
            steps.end(arm)
    assert said == [
        "choosing examples: balanced, repeat 1 of 3 (1 of 6)",
        "choosing examples: fwc, repeat 1 of 3 (2 of 6)",
        "choosing examples: balanced, repeat 2 of 3 (3 of 6, about 60 s left)",
        "choosing examples: fwc, repeat 2 of 3 (4 of 6, about 60 s left)",
        "choosing examples: balanced, repeat 3 of 3 (5 of 6, about 30 s left)",
        "choosing examples: fwc, repeat 3 of 3 (6 of 6, about 30 s left)",
    ]


def test_a_single_choice_is_not_counted() -> None:
    said: list[str] = []
    Choosing(1, 1, said.append).begin("fwc", 0)
    assert said == ["choosing examples: fwc, repeat 1 of 1"]
