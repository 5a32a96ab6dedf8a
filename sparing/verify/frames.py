"""Length-prefixed JSON over pipes, with deadlines: how the worker processes are spoken to."""

from __future__ import annotations

import json
import os
import select
import struct
import time
from typing import Any

_HEADER = struct.Struct(">I")


class FrameTimeoutError(Exception):
    """The deadline passed before a whole frame had come."""


def write_frame(fd: int, message: dict[str, Any]) -> None:
    """Write one message; raises BrokenPipeError when the reader is gone."""
    data = json.dumps(message).encode()
    rest = memoryview(_HEADER.pack(len(data)) + data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def read_frame(fd: int, timeout: float | None = None, also: int | None = None) -> dict[str, Any]:
    """Read one message within `timeout` seconds (None waits for ever).

    Raises EOFError at the end of the stream, or as soon as anything happens on the descriptor `also`; and
    FrameTimeoutError.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    size = _HEADER.unpack(_read_exactly(fd, _HEADER.size, deadline, also))[0]
    message: dict[str, Any] = json.loads(_read_exactly(fd, size, deadline, also))
    return message


def _read_exactly(fd: int, size: int, deadline: float | None, also: int | None) -> bytes:
    poll = select.poll()
    for watched in (fd, also):
        if watched is not None:
            poll.register(watched, select.POLLIN)
    data = bytearray()
    while len(data) < size:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise FrameTimeoutError
        ready = [which for which, _ in poll.poll(None if left is None else left * 1000)]
        if fd in ready:
            piece = os.read(fd, size - len(data))
            if not piece:
                raise EOFError
            data += piece
        elif ready:
            raise EOFError
    return bytes(data)
