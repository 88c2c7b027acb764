"""The header of a GGUF file, read and checked before llama.cpp, which can crash the process, sees the file.

The format: magic, version, number of tensors, number of keys; the keys with their typed values; the tensors'
names, shapes, types and offsets; then, aligned, the tensors. All numbers are little-endian.
"""

import hashlib
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from fwc_llm.errors import FwcError
from fwc_llm.files import open_binary, reason
from fwc_llm.untrusted import shortened, visible, whole

_LONGEST_HEADER = 1 << 28  # bytes; that of a vocabulary of 256,000 tokens has 16 MB
_MOST_KEYS, _MOST_TENSORS = 1 << 14, 1 << 18
_LONGEST_NAME = 65_535
_LONGEST_SHOWN = 80
_LARGEST_SIZE = 1 << 24  # of a layer, a head count, a context: 30 times those of the largest models
_STRING, _ARRAY = 8, 9
_NUMBERS = {kind: struct.Struct("<" + code) for kind, code in enumerate("BbHhIif?__Qqd") if code != "_"}
_U32, _U64 = _NUMBERS[4], _NUMBERS[10]
# Bytes and elements of a block, by the number of a tensor's type. llama.cpp checks those that are not listed.
_BLOCKS = {
    0: (4, 1), 1: (2, 1), 2: (18, 32), 3: (20, 32), 6: (22, 32), 7: (24, 32), 8: (34, 32), 9: (36, 32),
    10: (84, 256), 11: (110, 256), 12: (144, 256), 13: (176, 256), 14: (210, 256), 24: (1, 1), 25: (2, 1),
    26: (4, 1), 27: (8, 1), 28: (8, 1), 30: (2, 1),
}  # fmt: skip
# The names of `general.file_type`.
_QUANTISATIONS = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
    19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL",
    26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0",
    37: "TQ2_0", 38: "MXFP4",
}  # fmt: skip
_SIZES = ("embedding_length", "attention.head_count")
_MOST_LAYERS = 512  # more abort llama.cpp, and the process


class _UnusableError(ValueError):
    """What is wrong with a file, in words."""


@dataclass(frozen=True)
class Gguf:
    """A model's file, as its header describes it. `context` is the most tokens that it was made for."""

    path: Path
    name: str
    architecture: str
    quantisation: str
    parameters: int
    context: int
    has_template: bool
    size: int = field(repr=False)
    changed: int = field(repr=False)

    @property
    def described(self) -> str:
        """Name, architecture, quantisation and size, on one line."""
        millions = f"{self.parameters / 1e6:,.0f}M parameters"
        return f"{self.name} ({self.architecture}, {self.quantisation}, {millions})"

    @property
    def sha256(self) -> str:
        """The checksum of the whole file, which is what the model's publisher shows."""
        return _checksum(self.path, self.size, self.changed)


def read_gguf(path: Path) -> Gguf:
    """Read and check the header of a model's file. Errors: `FwcError` for one that cannot be used."""
    try:
        with open_binary(path) as file:
            found = os.fstat(file.fileno())
            start = file.read(min(found.st_size, 1 << 25))
            try:
                return _read(path, _Bytes(start, found.st_size), found.st_mtime_ns)
            except _TooShortError:
                start += file.read(min(found.st_size, _LONGEST_HEADER) - len(start))
                return _read(path, _Bytes(start, found.st_size), found.st_mtime_ns)
    except _TooShortError:
        why = "it ends within its header" if found.st_size <= _LONGEST_HEADER else "its header has no end"
    except _UnusableError as error:
        why = str(error)
    except (OSError, ValueError) as error:  # a NUL in the path is a ValueError
        why = reason(error)
    raise FwcError(f"{visible(str(path))} is no GGUF file that can be used: {why}; give a model as gguf:FILE")


class _TooShortError(_UnusableError):
    """The bytes end before what they announce."""


class _Bytes:
    """The beginning of a file, read from left to right."""

    def __init__(self, content: bytes, size: int) -> None:
        self._content, self.at, self.size = content, 0, size

    def take(self, length: int) -> bytes:
        if length > len(self._content) - self.at:
            raise _TooShortError
        self.at += length
        return self._content[self.at - length : self.at]

    def number(self, kind: struct.Struct) -> Any:
        return kind.unpack(self.take(kind.size))[0]

    def text(self, longest: int) -> str:
        length = self.number(_U64)
        if length > longest:
            raise _UnusableError(f"its header has a text of {length:,} bytes")
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """One value; of an array its length, or the numbers of a short one."""
        if kind == _STRING:
            return self.text(_LONGEST_HEADER)
        if kind != _ARRAY:
            return self.number(_number(kind))
        inner, count = self.number(_U32), self.number(_U64)
        if inner == _STRING:
            for _ in range(count):
                self.take(self.number(_U64))
            return count
        numbers = _number(inner)
        content = self.take(count * numbers.size)
        return [each for (each,) in numbers.iter_unpack(content)] if count <= 4096 else count


def _number(kind: int) -> struct.Struct:
    if kind not in _NUMBERS:
        raise _UnusableError(f"its header has a value of the unknown type {kind}")
    return _NUMBERS[kind]


def _read(path: Path, given: _Bytes, changed: int) -> Gguf:
    magic = given.take(4)
    if magic != b"GGUF":
        raise _UnusableError(f"it begins with {magic!r}, not with b'GGUF'")
    version = given.number(_U32)
    if version not in (2, 3):
        raise _UnusableError(f"its version is {version}, where 2 and 3 are known (and little-endian numbers)")
    n_tensors, n_keys = given.number(_U64), given.number(_U64)
    if n_tensors > _MOST_TENSORS or n_keys > _MOST_KEYS:
        raise _UnusableError(f"its header announces {n_tensors:,} tensors and {n_keys:,} keys")
    keys: dict[str, Any] = {}
    for _ in range(n_keys):
        key = given.text(_LONGEST_NAME)
        if key in keys:
            raise _UnusableError(f"the key {_shown(key)!r} is there twice")
        keys[key] = given.value(given.number(_U32))
    parameters = _tensors(given, n_tensors, keys.get("general.alignment", 32))
    return _described(path, keys, parameters, given.size, changed)


def _tensors(given: _Bytes, count: int, alignment: Any) -> int:
    """Check that every tensor lies inside the file; return how many numbers they hold."""
    if not isinstance(alignment, int) or not 0 < alignment < 1 << 20 or alignment & (alignment - 1):
        raise _UnusableError(f"its alignment is {_shown(alignment)}, no power of two")
    names: set[str] = set()
    elements = furthest = 0
    for _ in range(count):
        name = given.text(63)
        dimensions = given.number(_U32)
        if name in names or not 1 <= dimensions <= 4:
            raise _UnusableError(
                f"the tensor {_shown(name)!r} is there twice, or has {dimensions} dimensions"
            )
        names.add(name)
        shape = [given.number(_U64) for _ in range(dimensions)]
        kind, offset = given.number(_U32), given.number(_U64)
        size, block = _BLOCKS.get(kind, (0, 1))
        if not 0 < prod(shape) < 1 << 48 or shape[0] % block or offset % alignment:
            raise _UnusableError(f"the tensor {_shown(name)!r} has an impossible shape or place")
        elements += prod(shape)
        furthest = max(furthest, offset + prod(shape) // block * size)
    if not count:
        raise _UnusableError("it holds no tensors")
    begins = -(-given.at // alignment) * alignment
    if begins + furthest > given.size:
        missing = begins + furthest - given.size
        raise _UnusableError(f"it is cut off: {missing:,} bytes of its tensors are missing")
    return elements


def _described(path: Path, keys: Mapping[str, Any], parameters: int, size: int, changed: int) -> Gguf:
    architecture = keys.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise _UnusableError("its header names no architecture")
    if keys.get("general.type", "model") != "model":
        raise _UnusableError(f"it holds no model, but: {_shown(keys['general.type'])}")
    if (whole(keys.get("split.count")) or 0) > 1:
        raise _UnusableError("it is one of several parts: join them (llama-gguf-split --merge)")
    for key in _SIZES:
        values = keys.get(f"{architecture}.{key}")
        if not _sensible(values):
            raise _UnusableError(f"its {architecture}.{key} is {_shown(values)}")
    layers = keys.get(f"{architecture}.block_count")
    if not _sensible(layers) or not isinstance(layers, int) or layers > _MOST_LAYERS:
        raise _UnusableError(f"its {architecture}.block_count is {_shown(layers)}")
    context = keys.get(f"{architecture}.context_length")
    if not _sensible(context) or not isinstance(context, int):
        raise _UnusableError(f"its {architecture}.context_length is {_shown(context)}")
    if not keys.get("tokenizer.ggml.model") or not keys.get("tokenizer.ggml.tokens"):
        raise _UnusableError("it has no tokenizer")
    kind = whole(keys.get("general.file_type"))
    return Gguf(
        path=path,
        name=_shown(keys.get("general.name") or path.stem),
        architecture=_shown(architecture),
        quantisation=_QUANTISATIONS.get(kind if kind is not None else -1, "quantisation unknown"),
        parameters=parameters,
        context=context,
        has_template=bool(keys.get("tokenizer.chat_template")),
        size=size,
        changed=changed,
    )


def _sensible(value: Any) -> bool:
    """Whether a size, or every layer's, is one that a model can have. A layer may have no heads, not all."""
    values = value if isinstance(value, list) else [value]
    good: Callable[[Any], bool] = lambda each: type(each) is int and 0 <= each <= _LARGEST_SIZE  # noqa: E731
    return all(map(good, values)) and any(values)


def _shown(value: Any) -> str:
    return shortened(" ".join(visible(str(value)).split()), _LONGEST_SHOWN)


@cache
def _checksum(path: Path, size: int, changed: int) -> str:
    """SHA-256 of a file; size and time of change are there so that another file is read again."""
    try:
        with open_binary(path) as file:
            digest = hashlib.sha256()
            while part := file.read(1 << 20):
                digest.update(part)
            return digest.hexdigest()
    except OSError as error:  # it is there, or it was a moment ago
        raise FwcError(f"cannot read {visible(str(path))}: {reason(error)}") from None
