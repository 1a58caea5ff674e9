"""Limit the normalisation table of sentencepiece models, which replaces characters by texts of any length.

The table is the field `precompiled_charsmap` of a model's `normalizer_spec` and `denormalizer_spec`
(sentencepiece_model.proto), and a normalizer of type Precompiled in a tokenizer.json: four bytes with the size of a
trie, the trie, and all replacements, each ended by a zero byte.
"""

from __future__ import annotations

from collections.abc import Iterator

LONGEST_REPLACEMENT = 100
"""Maximum bytes of a character's replacement: NFKC, the usual table, needs 33."""

_NORMALIZERS = (3, 5)  # fields of ModelProto: normalizer_spec and denormalizer_spec
_CHARSMAP = 2  # field of NormalizerSpec


def longest_replacement(charsmap: bytes) -> int:
    """Return the length in bytes of a table's longest replacement."""
    texts = charsmap[4 + int.from_bytes(charsmap[:4], "little") :]
    return max(map(len, texts.split(b"\0")))


def charsmaps(model: bytes) -> Iterator[bytes]:
    """Yield the normalisation tables of a sentencepiece model.

    Raises:
        IndexError, ValueError: the bytes are not a sentencepiece model.
    """
    for field, content in _fields(model):
        if field in _NORMALIZERS:
            yield from (value for name, value in _fields(content) if name == _CHARSMAP)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of a protobuf message's length-delimited fields, and skip the others."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at, 32)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(message, at, 64)
            continue
        size = {1: 8, 5: 4}.get(kind, -1)
        if kind == 2:
            size, at = _varint(message, at, 32)
        if size < 0:
            raise ValueError(f"unknown type of field: {kind}")
        if kind == 2:
            yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int, bits: int) -> tuple[int, int]:
    """Return the number that begins at a byte, seven bits per byte, and the position after it."""
    value = shift = 0
    while message[at] & 0x80 and shift + 7 < bits:
        value |= (message[at] & 0x7F) << shift
        shift += 7
        at += 1
    value |= message[at] << shift
    if value >> bits:
        raise ValueError(f"a number of more than {bits} bits")
    return value, at + 1
