"""What is no model is refused before llama.cpp sees it: whatever the bytes are, one clear line comes back."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fwc_llm.errors import FwcError
from fwc_llm.models.local.gguf import Gguf, read_gguf
from tests.models.local.files import KEYS, TENSOR, gguf

BIG = 1 << 62
FAULTS = {
    "text": (b"hello, I am no model", "it begins with b'hell'"),
    "nothing": (b"", "it ends within its header"),
    "magic alone": (b"GGUF", "it ends within its header"),
    "version": (gguf(version=1), "its version is 1"),
    "big-endian": (gguf(version=3 << 24), "its version is 50331648"),
    "keys without end": (gguf(n_keys=BIG), "announces 1 tensors and 4,611"),
    "more keys than there are": (gguf(n_keys=len(KEYS) + 1), "its header"),
    "cut off": (gguf(data=100), "156 bytes of its tensors are missing"),
    "no tensors": (gguf(tensors=()), "no tensors"),
    "a tensor beyond all": (gguf(tensors=((TENSOR[0], (BIG, BIG), 0, 0),)), "impossible shape"),
    "an empty tensor": (gguf(tensors=((TENSOR[0], (0,), 0, 0),)), "impossible shape"),
    "a tensor far away": (gguf(tensors=((TENSOR[0], (32,), 0, BIG),)), "are missing"),
    "a tensor twice": (gguf(tensors=(TENSOR, TENSOR)), "is there twice"),
    "no architecture": (gguf({**KEYS, "general.architecture": ""}), "names no architecture"),
    "an adapter": (gguf({**KEYS, "general.type": "adapter"}), "it holds no model, but: adapter"),
    "one part": (gguf({**KEYS, "split.count": 3}), "one of several parts"),
    "no layers": (gguf({**KEYS, "llama.block_count": 0}), "block_count is 0"),
    "layers that abort llama.cpp": (gguf({**KEYS, "llama.block_count": 1 << 20}), "block_count is 1048576"),
    "no heads": (gguf({**KEYS, "llama.attention.head_count": 0}), "head_count is 0"),
    "no vocabulary": (gguf({**KEYS, "tokenizer.ggml.tokens": []}), "no tokenizer"),
    "an alignment of 3": (gguf({**KEYS, "general.alignment": 3}), "its alignment is 3"),
    "escapes": (gguf({**KEYS, "general.type": "\x1b[2J"}), "but: \ufffd[2J"),
}


def written(folder: Path, content: bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(content)
    return path


def test_a_header_says_what_the_model_is(tmp_path: Path) -> None:
    path = written(tmp_path, gguf())
    found = read_gguf(path)
    assert (found.name, found.architecture, found.quantisation) == ("Tiny", "llama", "Q8_0")
    assert (found.context, found.parameters, found.has_template) == (128, 64, False)
    assert found.described == "Tiny (llama, Q8_0, 0M parameters)"


def test_another_file_of_the_same_name_has_another_checksum(tmp_path: Path) -> None:
    first = read_gguf(written(tmp_path, gguf())).sha256
    second = read_gguf(written(tmp_path, gguf(data=300))).sha256
    assert first != second
    assert len(first) == 64


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(tmp_path: Path, name: str) -> None:
    content, words = FAULTS[name]
    with pytest.raises(FwcError) as caught:
        read_gguf(written(tmp_path, content))
    assert words in str(caught.value)
    assert "no GGUF file that can be used" in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("kind", ["folder", "pipe", "missing", "NUL"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("a\0b" if kind == "NUL" else "model.gguf")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(FwcError, match="no GGUF file that can be used"):
        read_gguf(path)


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8),
    st.integers(0, 1000),
)
def test_any_damage_is_either_harmless_or_refused(
    tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, int]], cut: int
) -> None:
    content = bytearray(gguf())
    for place, byte in damage:
        content[place % len(content)] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(bytes(content[: len(content) - cut % len(content)]))
    found: object = None
    try:
        found = read_gguf(path)
    except FwcError as error:
        found = str(error)
    assert isinstance(found, Gguf) or (isinstance(found, str) and "\n" not in found)
