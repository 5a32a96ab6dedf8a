"""The final table on terminals of any width."""

import io

import pytest
from rich.console import Console

from sparing.terminal.live import print_results

ROW = {
    "trained": True,
    "base": {"accuracy": 0.9, "length": 100.0},
    "final": {"accuracy": 0.9, "length": 40.0},
    "delta_accuracy": 0.0,
    "delta_accuracy_ci": [-0.1, 0.1],
    "relative_length": 0.4,
    "relative_length_ci": [0.3, 0.5],
    "shortest_length": 30.0,
    "excess_removed": 0.857,
    "tiers": {},
}


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_domains_keep_their_names(width):
    out = io.StringIO()
    print_results(Console(file=out, width=width), {"domains": {"arithmetic": ROW}, "seconds": 60})
    assert "arithmetic" in out.getvalue()
    assert "0.900" in out.getvalue() or "0.90" in out.getvalue()
