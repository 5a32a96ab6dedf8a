"""One self-contained HTML page that shows what a run did. Reads run folders only."""

from __future__ import annotations

from pathlib import Path

from sparing.report.load import load_run
from sparing.report.page import render

__all__ = ["write_report"]


def write_report(run_folder: Path) -> Path:
    """Write RUN/report.html from what the folder holds, finished or not, and return its path.

    Raises RunError if the folder is missing or is no run folder.
    """
    target = run_folder / "report.html"
    text = render(load_run(run_folder))
    # A reader that reloads while a run goes on never sees half a page.
    unfinished = run_folder / ".tmp-report.html"
    unfinished.write_text(text, encoding="utf-8")
    return unfinished.replace(target)
