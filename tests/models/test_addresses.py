"""Which key and which record reaches which address, whatever the environment names
(SECURITY.md).
"""

import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fwc_llm.models import is_local, open_model
from fwc_llm.tasks import load_task
from tests.command import corpus
from tests.faults.loopback import HttpReply, HttpRequest, completion, serve_in_thread
from tests.models import asking
from tests.refusals import refused

SECRETS = {
    "OPENAI_API_KEY": "secret-openai-0123456789",
    "OPENAI_ORG_ID": "secret-organization",
    "OPENAI_PROJECT_ID": "secret-project",
    "OPENAI_ADMIN_KEY": "secret-admin-0123456789",
    "AZURE_OPENAI_API_KEY": "secret-azure-0123456789",
    "AZURE_OPENAI_AD_TOKEN": "secret-token-0123456789",
    "OTHER_KEY": "secret-other-0123456789",
}
HEADER = "secret-header"  # in OPENAI_CUSTOM_HEADERS


class Place(list[HttpRequest]):
    """A server that keeps what reached it."""

    url = ""

    def __call__(self, request: HttpRequest) -> HttpReply:
        self.append(request)
        return HttpReply(completion("Yes"))

    @property
    def secrets(self) -> set[str]:
        told = str([vars(request) for request in self])
        basic = re.findall(r"Basic ([\w+/=]+)", told)  # as a login of .netrc is sent
        return set(
            re.findall(
                r"secret-[a-z]+", told + "".join(str(b64decode(each)) for each in basic)
            )
        )


@pytest.fixture
def places(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[Place, Place, Place]]:
    """A service, another one, and a proxy that the environment names for everything."""
    service = Place()
    another = Place()
    proxy = Place()
    with ExitStack() as stack:
        for place in (service, another, proxy):
            place.url = stack.enter_context(serve_in_thread(place))
        for name, value in SECRETS.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv(
            "OPENAI_CUSTOM_HEADERS",
            f"X-Gateway: {HEADER}\nAuthorization: Bearer {HEADER}",
        )
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.lower(), proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        netrc = tmp_path / ".netrc"
        netrc.write_text("default login me password secret-login\n")
        netrc.chmod(0o600)
        monkeypatch.setenv("NETRC", str(netrc))
        monkeypatch.setenv("HOME", str(tmp_path))
        yield service, another, proxy


def ask(name: str, **options: Any) -> None:
    asking.ask(open_model(name, deadline=1.0, **options))


@pytest.mark.parametrize(
    ("name", "variables", "options", "reach"),
    [
        ("gpt-4", {}, {"base_url": "{service}"}, set()),
        ("gpt-4", {"OPENAI_BASE_URL": "{service}"}, {}, {"secret-openai", HEADER}),
        ("gpt-4", {"OPENAI_BASE_URL": "{another}"}, {"base_url": "{service}"}, set()),
        (
            "gpt-4",
            {"OPENAI_BASE_URL": "{service}"},
            {"api_key_env": "OTHER_KEY"},
            {"secret-other", HEADER},
        ),
        (
            "gpt-4",
            {},
            {"base_url": "{service}", "api_key_env": "OTHER_KEY"},
            {"secret-other"},
        ),
        ("azure:d", {"AZURE_OPENAI_ENDPOINT": "{service}"}, {}, {"secret-azure"}),
        ("azure:d", {}, {"base_url": "{service}"}, set()),
        (
            "azure:d",
            {"AZURE_OPENAI_ENDPOINT": "{another}"},
            {"base_url": "{service}"},
            set(),
        ),
        (
            "azure:d",
            {},
            {"base_url": "{service}", "api_key_env": "OTHER_KEY"},
            {"secret-other"},
        ),
    ],
)
def test_what_reaches_an_address_of_this_machine(
    places: tuple[Place, Place, Place],
    name: str,
    variables: dict[str, str],
    options: dict[str, str],
    reach: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service, another, proxy = places
    urls = {"service": service.url, "another": another.url}
    for variable, url in variables.items():
        monkeypatch.setenv(variable, url.format(**urls))
    ask(name, **{option: text.format(**urls) for option, text in options.items()})
    assert (len(service), service.secrets) == (1, reach)
    assert (list(another), list(proxy)) == ([], [])


def test_a_proxy_sees_what_goes_elsewhere_and_no_key(
    places: tuple[Place, Place, Place],
) -> None:
    *_, proxy = places
    ask("gpt-4", base_url="http://service.example/v1")
    assert proxy[0].path == "http://service.example/v1/chat/completions"
    ask("gpt-4", base_url="https://service.example/v1", api_key_env="OTHER_KEY")
    assert {request.method for request in proxy[1:]} == {"CONNECT"}, (
        "what is encrypted passes through it"
    )
    assert proxy.secrets == set()


def test_downloads_go_straight_to_this_machine(
    places: tuple[Place, Place, Place], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service, _, proxy = places
    monkeypatch.setenv("FWC_LLM_DATA_URL", service.url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FWC_LLM_DATA", raising=False)
    with refused("not the published file"):
        load_task("adult").pool()
    assert len(service) == 1
    assert (service.secrets, list(proxy)) == (set(), [])


@pytest.mark.parametrize(("url", "local"), corpus("addresses"))
def test_addresses_of_this_machine(url: str | None, local: bool) -> None:
    assert is_local(url) == local


@pytest.mark.parametrize(("name", "meant"), corpus("mistakes/names"))
def test_a_name_a_letter_from_a_known_one_is_refused(
    name: str, meant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert open_model(name, base_url="http://127.0.0.1:9/v1").name == name
    if meant is None:
        assert open_model(name).name == name
    else:
        with refused(f"did you mean '{meant}'"):
            open_model(name)
