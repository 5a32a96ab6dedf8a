"""Two ways to watch a run: a live panel on a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import sys

from sparing.progress import Progress


def open_progress(*, plain: bool = False) -> Progress:
    """The live panel where stdout is a terminal that can redraw, else plain lines."""
    if plain or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        from sparing.terminal.plain import PlainProgress

        return PlainProgress()
    from sparing.terminal.live import LiveProgress

    return LiveProgress()
