"""Several runs of one recipe side by side, as Markdown: `python -m sparing.report.seeds RUN [RUN ...]`.

Cells hold each run's own value with its 95 % interval, run after run, so that nothing is averaged away.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sparing.errors import RunError, SparingError
from sparing.report.load import load_run
from sparing.report.markup import num, percent, signed
from sparing.report.records import Comparison, Run


def seeds_markdown(folders: Sequence[Path]) -> str:
    """Two tables: what each run is, and base against final for every domain and tier.

    Raises:
        RunError: a run is not finished, or the runs do not share their test domains.
    """
    runs = [load_run(folder) for folder in folders]
    for run in runs:
        if run.summary is None or not run.domains:
            raise RunError(f"{run.path} has no finished test; finish the run, or leave it out")
    names = [[domain.name for domain in run.domains] for run in runs]
    if any(own != names[0] for own in names):
        raise RunError("the runs were tested on different domains; give runs of one recipe")
    lines = ["| seed | steps | seconds | peak memory, GB | compression ended |", "| --- | --- | --- | --- | --- |"]
    lines += [_run_line(run) for run in runs]
    lines += [
        "",
        "| domain | tier | seed | accuracy | change [95 %] | tokens | shortest | length [95 %] | excess removed |",
    ]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for index in range(len(names[0])):
        for row in range(len(runs[0].domains[index].rows)):
            for run in runs:
                domain = run.domains[index]
                lines.append(_result_line(run, domain, domain.rows[row]))
    return "\n".join(lines) + "\n"


def _run_line(run: Run) -> str:
    summary = run.summary or {}
    stops = [decision for decision in run.decisions if decision.stage.name == "compression"]
    ended = "; ".join(f"step {one.stopped_at}, kept step {one.chosen_step}" for one in stops)
    memory = num(float(summary.get("peak_memory_bytes", float("nan"))) / 1e9, 2)
    seconds = num(float(summary.get("seconds", float("nan"))))
    return f"| {_seed(run)} | {len(run.steps)} | {seconds} | {memory} | {ended} |"


def _result_line(run: Run, domain: Comparison, row: Comparison) -> str:
    kind = "trained" if domain.trained else "unseen"
    tier = "all" if row is domain else row.name
    low, high = row.relative_interval
    change = f"{signed(row.delta_accuracy)} [{signed(row.delta_interval[0])}, {signed(row.delta_interval[1])}]"
    length = (
        f"{percent(row.relative_length - 1, sign=True)} [{percent(low - 1, sign=True)}, {percent(high - 1, sign=True)}]"
    )
    cells = [
        f"{domain.name} ({kind})",
        tier,
        _seed(run),
        f"{row.base_accuracy:.3f} → {row.final_accuracy:.3f}",
        change,
        f"{num(row.base_length)} → {num(row.final_length)}",
        num(row.shortest_length),
        length,
        percent(row.excess_removed),
    ]
    return "| " + " | ".join(cells) + " |"


def _seed(run: Run) -> str:
    return str(run.config.get("seed", "?"))


def main() -> int:
    """Print the tables; 2 where a run cannot be read."""
    if len(sys.argv) < 2:
        print("usage: python -m sparing.report.seeds RUN [RUN ...]", file=sys.stderr)
        return 2
    try:
        print(seeds_markdown([Path(argument) for argument in sys.argv[1:]]), end="")
    except SparingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
