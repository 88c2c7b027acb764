"""What a model must have, what it may have, and what a client says of both."""

from typing import Any

import pytest

from fwc_llm.errors import FwcError
from fwc_llm.models import Client, Messages, Model, Traits, open_model, traits
from tests.models.asking import KEY
from tests.models.four_members import FourMembers


class Picky(FourMembers):
    """Says all that a model may say of itself."""

    simulated = True
    completion_limit = 7

    def require_key(self) -> None:
        raise FwcError("no key")

    def check(self, messages: Messages) -> None:
        raise FwcError(f"{len(messages)} messages are too many")


def test_four_members_make_a_model() -> None:
    assert isinstance(FourMembers(), Model)
    assert traits(FourMembers()) == Traits()
    traits(FourMembers()).require_key()
    traits(FourMembers()).check([])


def test_a_model_is_asked_about_itself_in_one_place() -> None:
    said = traits(Picky())
    assert (said.simulated, said.completion_limit) == (True, 7)
    with pytest.raises(FwcError, match="no key"):
        said.require_key()
    with pytest.raises(FwcError, match="0 messages"):
        said.check([])


def test_the_surrogate_and_services_say_what_they_are() -> None:
    assert traits(open_model("surrogate")).simulated
    assert not traits(open_model("gpt-4")).simulated
    assert traits(open_model("gpt-4", max_tokens=3)).completion_limit == 3
    with pytest.raises(FwcError, match="OPENAI_API_KEY"):
        traits(open_model("gpt-4")).require_key()


def test_a_key_in_the_wrong_place_is_not_repeated() -> None:
    for options in ({"params": KEY}, {"params": KEY[:9]}, {"max_tokens": KEY}, {"rpm": f"Bearer {KEY}"}):
        with pytest.raises(FwcError, match=next(iter(options))) as caught:
            Client(**options)  # type: ignore[arg-type]
        assert KEY[:9] not in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"rpm": 0}, {"tpm": -1}, {"deadline": -1.0}, {"concurrency": 0}, {"max_tokens": 0}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(FwcError, match=next(iter(options))):
        Client(**options)
