"""The worker process: `python -m sparing.verify.worker`, spoken to over stdin and stdout.

It keeps two processes. The outer one imports math-verify once and never computes, so it always keeps deadlines; it
forks an inner one that does the work. An inner process that hangs, dies or runs out of memory is killed and reaped, and
the next is forked in milliseconds. Forking is safe here: this program has one thread and no torch.

When the parent of the outer process is gone, even by kill -9, its stdin ends, and both processes end at once.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from sparing.verify.frames import FrameTimeoutError, read_frame, write_frame

Message = dict[str, Any]
Judge = Callable[[Message], Message]

# Enough for any sane answer; a power tower stops here and not at the end of the machine's memory.
MEMORY_BYTES = 4 * 1024**3


@dataclass
class _Inner:
    pid: int
    requests: int
    replies: int


def answer_request(request: Message) -> Message:
    """Judge one pair, or check one gold answer: {"op", "gold", "answer"} to {"equal"} or {"problem"}."""
    from sparing.verify import math

    if request["op"] == "check":
        return {"problem": math.check(request["gold"])}
    return {"equal": math.judge(request["gold"], request["answer"])}


def serve(answer: Judge = answer_request) -> None:
    """Answer requests from stdin to stdout until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = os.dup(0), os.dup(1)
    # Nothing that a library prints may get between the frames.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    write_frame(sink, _warm_up(answer))
    inner: _Inner | None = None
    try:
        while True:
            request = read_frame(source)
            inner = inner or _fork(answer, (source, sink))
            reply = _ask(inner, request, source)
            if "failed" in reply:
                _end(inner)
                inner = None
            write_frame(sink, {"id": request["id"], **reply})
    except (EOFError, BrokenPipeError):
        if inner is not None:
            _end(inner)


def _warm_up(answer: Judge) -> Message:
    """Import and run everything once, so that inner processes start warm; tell the parent whether it works."""
    try:
        answer({"id": 0, "op": "judge", "gold": r"\sqrt{8}", "answer": r"2\sqrt{2}", "timeout": 60.0})
    except Exception as error:
        return {"ready": False, "error": f"{type(error).__name__}: {error}"}
    return {"ready": True}


def _ask(inner: _Inner, request: Message, source: int) -> Message:
    """One request to the inner process; {"failed": "timeout" | "crash" | "memory" | "error", "reason"} if it fails."""
    try:
        write_frame(inner.requests, request)
        # The parent sends nothing before it has a reply, so anything on stdin is its end.
        reply = read_frame(inner.replies, request["timeout"], also=source)
    except FrameTimeoutError:
        return {"failed": "timeout", "reason": f"no verdict within {request['timeout']:g} s"}
    except (EOFError, BrokenPipeError):
        end = _end_of(inner.pid)
        if end is None:
            raise EOFError from None
        return {"failed": "crash", "reason": f"the verifier process died{end}"}
    return reply


def _end_of(pid: int) -> str | None:
    """How a process whose pipe closed ended; None when it lives, so that it was the parent's pipe that ended."""
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        # Left to be reaped by `_end`.
        result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if result is not None:
            return f" by signal {result.si_status}" if result.si_code != os.CLD_EXITED else ""
        time.sleep(0.005)
    return None


def _end(inner: _Inner) -> None:
    """Kill and reap; a process that has ended already is only reaped."""
    os.kill(inner.pid, signal.SIGKILL)
    os.waitpid(inner.pid, 0)
    os.close(inner.requests)
    os.close(inner.replies)


def _fork(answer: Judge, not_mine: tuple[int, ...]) -> _Inner:
    requests_read, requests_write = os.pipe()
    replies_read, replies_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        for fd in (*not_mine, requests_write, replies_read):
            os.close(fd)
        _work(answer, requests_read, replies_write)
    os.close(requests_read)
    os.close(replies_write)
    return _Inner(pid, requests_write, replies_read)


def _work(answer: Judge, requests: int, replies: int) -> NoReturn:
    """The inner process: answer until the outer one is gone. Never returns into the caller's stack."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _limit(resource.RLIMIT_AS, MEMORY_BYTES)
        while True:
            request = read_frame(requests)
            # Should the outer process die while this one computes, it ends by its CPU time.
            used = resource.getrusage(resource.RUSAGE_SELF)
            _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + request["timeout"]) + 2)
            write_frame(replies, _answered(answer, request))
    except (EOFError, BrokenPipeError):
        os._exit(0)
    except BaseException:
        os._exit(1)


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _answered(answer: Judge, request: Message) -> Message:
    try:
        return answer(request)
    except MemoryError:
        return {"failed": "memory", "reason": f"the verifier needed more than {MEMORY_BYTES >> 30} GiB"}
    except Exception as error:
        return {"failed": "error", "reason": f"the verifier raised {type(error).__name__}: {str(error)[:200]}"}


if __name__ == "__main__":
    serve()
    sys.exit(0)
