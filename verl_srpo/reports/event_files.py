"""Scalars of TensorBoard event files, read without TensorBoard.

A file is a row of records (length, its checksum, data, its checksum); the data is a protobuf ``Event`` of which three
fields matter: step (2), summary (5), and in it values (1) with tag (1) and a plain number (2) or a tensor (8).
"""

import struct
from collections.abc import Iterator
from pathlib import Path

_DOUBLE, _VARINT, _BYTES, _FLOAT = 1, 0, 2, 5
_TENSOR_CONTENT, _FLOAT_VALUES = 4, 5


class DamagedRecord(ValueError):
    """The file ends or breaks off here; what came before is sound."""


def read_scalars(path: Path) -> Iterator[tuple[int, str, float]]:
    """Yield ``(step, tag, value)`` of every scalar in file order.

    Raises:
        DamagedRecord: at the first record that is cut off or no protobuf, after everything before it was yielded.
    """
    with path.open("rb") as file:
        while header := file.read(12):
            if len(header) < 12:
                raise DamagedRecord("cut off in the middle of a record")
            (length,) = struct.unpack("<Q", header[:8])
            data = file.read(length) if length < 1 << 31 else b""
            if len(data) < length or len(file.read(4)) < 4:
                raise DamagedRecord("cut off in the middle of a record")
            try:
                yield from list(_scalars_of(data))
            except (IndexError, UnicodeDecodeError, struct.error) as error:
                raise DamagedRecord("a record is no TensorBoard event") from error


def _scalars_of(event: bytes) -> Iterator[tuple[int, str, float]]:
    step, summaries = 0, []
    for number, value in _fields(event):
        if number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    for summary in summaries:
        for number, value in _fields(summary):
            if number == 1 and isinstance(value, bytes):
                fields = dict(_fields(value))
                scalar = fields.get(2, _tensor_scalar(fields.get(8)))
                if isinstance(scalar, float) and isinstance(tag := fields.get(1), bytes):
                    yield step, tag.decode(), scalar


def _tensor_scalar(tensor: object) -> float | None:
    """The only number of a float tensor, as newer writers store scalars; None for anything else."""
    if not isinstance(tensor, bytes):
        return None
    fields = dict(_fields(tensor))
    content = fields.get(_TENSOR_CONTENT, fields.get(_FLOAT_VALUES))
    if isinstance(content, float):
        return content
    return struct.unpack("<f", content)[0] if isinstance(content, bytes) and len(content) == 4 else None


def _fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield ``(field number, value)`` of a protobuf message: whole numbers, floats, and everything else as bytes."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        kind = key & 7
        if kind == _VARINT:
            value, position = _varint(message, position)
            yield key >> 3, value
        elif kind == _BYTES:
            length, position = _varint(message, position)
            if position + length > len(message):
                raise IndexError("a field is longer than its message")
            yield key >> 3, message[position : position + length]
            position += length
        elif kind in (_DOUBLE, _FLOAT):
            size, form = (8, "<d") if kind == _DOUBLE else (4, "<f")
            yield key >> 3, struct.unpack(form, message[position : position + size])[0]
            position += size
        else:
            raise IndexError(f"wire type {kind} is not in use")


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
