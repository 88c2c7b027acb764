"""Addresses, proxies and certificates that lead nowhere."""

import pytest

from fwc_llm.errors import FwcError
from tests.faults.loopback import HttpReply, completion
from tests.models.asking import over_http, quick


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "http://host:99999/v1", "http://host:x/v1", "http://", "http://ho st/v1", "http://h\n/v1",
     "http://h\x1b[2J/v1", "http://\ud800/v1", "http://h:0/v1", "//host/v1"],
)  # fmt: skip
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(FwcError, match="is not an http") as caught:
        quick("m", base_url=url)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["http://me:hush-hush@host/v1", "http://u:a@hush/b@host", "http://host?x=hush", "http://host/sk-hush-hush-hush",
     "http://sk-hush-hush-hush:99999", "https:/u:hush@host", "http://host/v1#hush"],
)  # fmt: skip
def test_an_address_with_a_key_is_not_repeated(url: str) -> None:
    with pytest.raises(FwcError, match="a query or a key") as caught:
        quick("m", base_url=url)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("ALL_PROXY", "socks5://127.0.0.1:9"), ("HTTPS_PROXY", "nonsense://x"), ("HTTP_PROXY", "http://[::1"),
     ("SSL_CERT_FILE", "/nowhere/cert.pem"), ("ALL_PROXY", "http://h:port")],
)  # fmt: skip
def test_an_environment_without_a_way_out(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    model = quick("m", base_url="https://host.example/v1")
    with pytest.raises(FwcError, match=r"no connection to .* can be set up.*HTTPS_PROXY") as caught:
        model.require_key()
    assert caught.value.exit_code == 2


def test_cookies_are_neither_kept_nor_sent() -> None:
    answer = HttpReply(completion("Yes"), headers={"set-cookie": "a=b; Path=/"})
    _, _, requests = over_http(answer, times=2)
    assert ["cookie" in request.headers for request in requests] == [False, False]
