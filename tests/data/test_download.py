"""Downloads from a real server on loopback: whole, corrupted, cut short, refused."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fwc_llm.data.locate import cache_folder
from fwc_llm.tasks import load_task, table_files
from tests.faults.loopback import HttpReply, HttpRequest, serve_in_thread
from tests.refusals import refused

BODY = b"x,sex,y\n" + b"".join(
    f"{k},{'fm'[k % 2]},{k % 3 == 0:d}\n".encode() for k in range(20_000)
)
TOML = f"""
question = "Is it?"
columns = [{{ name = "x", kind = "numeric" }}, {{ name = "sex" }}, {{ name = "y" }}]
[data]
file = "made/made.csv"
url = "http://127.0.0.1:9/nowhere"
sha256 = {{ "made/made.csv" = "{hashlib.sha256(BODY).hexdigest()}" }}
[outcome]
column = "y"
[[protected]]
column = "sex"
"""


class Server:
    """A mirror that has the file, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.url, self.behaviour = "", "whole"

    def __call__(self, request: HttpRequest) -> HttpReply:
        self.asked.append(request.path)
        if self.behaviour == "corrupted":
            body = BODY.replace(b"7", b"8")
        else:
            body = BODY
        cut = len(body) // 2 if self.behaviour == "cut short" else None
        return HttpReply(body, 503 if self.behaviour == "refused" else 200, cut=cut)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    with serve_in_thread(server) as url:
        server.url = f"{url}/mirror"
        yield server


@pytest.fixture
def taskfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task file with a url; the cache folder is `tmp_path/cache/fwc-llm`, and there is no
    other data.
    """
    monkeypatch.delenv("FWC_LLM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "made.toml").write_text(TOML)
    return tmp_path / "made.toml"


def left_behind() -> list[Path]:
    return [path for path in cache_folder().rglob("*") if path.is_file()]


def test_data_is_fetched_once(
    taskfile: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FWC_LLM_DATA_URL", server.url)
    task = load_task(taskfile)
    assert table_files(task) is None
    assert len(task.pool()) == 20_000
    cached = cache_folder() / "made" / "made.csv"
    assert table_files(task) == (cached,)
    assert cached.read_bytes() == BODY
    load_task(taskfile).pool()
    assert server.asked == ["/mirror/made.csv"]
    assert left_behind() == [cached]


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("corrupted", "not the published file"),
        ("cut short", "cannot download"),
        ("refused", "Unavailable"),
    ],
)
def test_a_bad_download_leaves_nothing_and_says_what_works(
    taskfile: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    behaviour: str,
    message: str,
) -> None:
    monkeypatch.setenv("FWC_LLM_DATA_URL", server.url)
    server.behaviour = behaviour
    with refused(message) as caught:
        load_task(taskfile).pool()
    assert "the task census and the model surrogate need no data" in str(caught.value)
    assert left_behind() == []
    server.behaviour = "whole"  # the next try works
    assert len(load_task(taskfile).pool()) == 20_000


def test_offline_names_the_places_searched(taskfile: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with refused() as caught:
        load_task(taskfile, tmp_path / "mine").pool()
    assert caught.value.exit_code == 2
    for expected in (
        str(tmp_path / "mine"),
        str(cache_folder()),
        "made/made.csv",
        "data_dir",
    ):
        assert expected in str(caught.value)


def test_the_order_of_the_search(
    taskfile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FWC_LLM_DATA", str(tmp_path / "variable"))
    places = (cache_folder(), tmp_path / "variable", tmp_path / "named", tmp_path)
    found = []
    for folder in places:
        (folder / "made").mkdir(parents=True, exist_ok=True)
        (folder / "made" / "made.csv").write_bytes(BODY)
        named = places[2] if places[2].exists() else None
        found.append(table_files(load_task(taskfile, named)))
    assert found == [(place / "made" / "made.csv",) for place in places]


def test_a_changed_copy_is_used_and_said(taskfile: Path, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "made.csv").write_bytes(BODY + b"1,f,1\n")
    task = load_task(taskfile)
    assert len(task.pool()) == 20_001
    assert any("differs from the published file" in note for note in task.notes)


@pytest.mark.parametrize("name", ["/etc/evil", "a/../../evil", "~/evil", ".."])
def test_a_download_goes_nowhere_but_below_the_cache_folder(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "my.toml").write_text(TOML.replace("made/made.csv", name))
    with refused("below the cache folder"):
        load_task(tmp_path / "my.toml")


@pytest.mark.parametrize(
    "url", ["http://host/x", "ftp://127.0.0.1/x", "file:///etc", "http://[::1"]
)
def test_a_download_comes_over_https(tmp_path: Path, url: str) -> None:
    (tmp_path / "my.toml").write_text(TOML.replace("http://127.0.0.1:9/nowhere", url))
    with refused("is not an https address"):
        load_task(tmp_path / "my.toml")
