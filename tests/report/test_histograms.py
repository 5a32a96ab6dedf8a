from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from sparing.report.histograms import histograms
from sparing.report.load import load_run


def test_every_response_is_in_a_bar_with_its_verdict(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    shown = histograms(load_run(folder)) or ""
    expected = {"correct": 0, "incorrect": 0}
    for which in ("base", "final"):
        for line in (folder / "evals" / f"{which}.jsonl").read_text().splitlines():
            for outcome in json.loads(line)["outcomes"]:
                expected[outcome] += 1
    counts = re.findall(r"(\d+) correct, (\d+) not correct", shown)
    assert sum(int(good) for good, _ in counts) == expected["correct"]
    assert sum(int(bad) for _, bad in counts) == expected["incorrect"]


def test_one_far_outlier_does_not_squeeze_the_rest(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    path = folder / "evals" / "base.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["lengths"][0] = 60_000
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = histograms(load_run(folder)) or ""
    assert "The last bar counts 1 longer response too." in shown
    assert "60,000" not in shown
