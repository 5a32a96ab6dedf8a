"""Runs side by side: every run has its line in each block, unfinished runs are refused."""

import json

import pytest

from sparing.errors import RunError
from sparing.report.seeds import seeds_markdown


def test_each_run_has_its_own_figures(make_run):
    runs = [make_run("one"), make_run("two")]
    text = seeds_markdown(runs)
    summary = json.loads((runs[0] / "summary.json").read_text())
    for name, row in summary["domains"].items():
        lines = [line for line in text.splitlines() if line.startswith(f"| {name} (") and "| all |" in line]
        assert len(lines) == 2
        assert f"{row['base']['accuracy']:.3f} → {row['final']['accuracy']:.3f}" in lines[0]


def test_an_unfinished_run_is_refused(make_run):
    run = make_run("one")
    (run / "summary.json").unlink()
    with pytest.raises(RunError, match="finish the run"):
        seeds_markdown([run])
