"""Figures and events of a run in words, the same for a live display and for plain lines."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from sparing.settings import RunConfig
from sparing.terminal.state import RunState

Row = Mapping[str, Any]
_BARS = "▁▂▃▄▅▆▇█"


def percent(share: float | None) -> str:
    """0.384 as `38 %`; a dash for None."""
    return "-" if share is None else f"{100 * share:.0f} %"


def signed_percent(share: float | None) -> str:
    """-0.55 as `-55 %`; nothing for None."""
    return "" if share is None else f"{100 * share:+.0f} %"


def tokens(length: float | None) -> str:
    """A length in tokens: 43, 9.5 or 12,345."""
    if length is None:
        return "-"
    return f"{length:,.0f}" if length >= 10 else f"{length:.1f}"


def duration(seconds: float | None) -> str:
    """83 as `1m23s`, 7,300 as `2h01m`; a dash for None."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def interval(row: Row, low: str, high: str) -> str:
    """`[0.88, 0.94]`, or nothing where the row has no interval."""
    if row.get(low) is None or row.get(high) is None:
        return ""
    return f"[{row[low]:.2f}, {row[high]:.2f}]"


def sparkline(values: Sequence[float], width: int) -> str:
    """The course of the values in `width` characters at most, each the mean of its share of them."""
    if not values or width < 1:
        return ""
    width = min(width, len(values))
    edges = [round(part * len(values) / width) for part in range(width + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, high = min(means), max(means)
    if high - low <= 1e-9 * max(1.0, abs(high)):
        return _BARS[3] * width
    return "".join(_BARS[round((mean - low) / (high - low) * (len(_BARS) - 1))] for mean in means)


def run_sentence(config: RunConfig, total_steps: int, resumed_at: int | None) -> str:
    """What is about to happen."""
    stages = " > ".join(f"{stage.type} {stage.steps}" for stage in config.curriculum.plan())
    begun = "run" if resumed_at is None else f"resumed at step {resumed_at}"
    return f"{begun}: {total_steps} steps at most ({stages}), seed {config.seed}, folder {config.output}"


def stage_sentence(state: RunState, loop: int, stage: str, steps: int) -> str:
    """Which stage begins, and where in the plan it stands."""
    loops = state.config.curriculum.loops if state.config else 1
    in_loop = f", loop {loop + 1} of {loops}" if loops > 1 else ""
    place = f"stage {state.stage_index + 1} of {len(state.plan)}{in_loop}"
    going_on = f", going on after step {state.stage_step} of it" if state.stage_step else ""
    return f"{place}: {stage}, {steps} steps at most{going_on}"


def validation_sentence(state: RunState, row: Row) -> str:
    """`validation at step 40: accuracy 0.91 [0.88, 0.94], length 43 (-55 %)`."""
    step = row.get("step", 0)
    accuracy = f"accuracy {row['accuracy']:.2f} {interval(row, 'accuracy_low', 'accuracy_high')}".rstrip()
    shorter = signed_percent(state.validation_change(row))
    length = f"length {tokens(row['length'])}" + (f" ({shorter})" if shorter else "")
    where = f"validation at step {step}" if step else "base model"
    if is_repeat(row):
        where = f"step {step} continues from the weights of step {row['weights_step']}"
    warnings = "".join(
        f", {percent(row[key])} {name}" for key, name in _WARNINGS.items() if (row.get(key) or 0.0) >= 0.05
    )
    return f"{where}: {accuracy}, {length}{warnings}"


_WARNINGS = {
    "truncated_share": "cut at the limit",
    "instant_share": "wrong without thinking",
    "unknown_share": "ungraded",
}


def is_repeat(row: Row) -> bool:
    """Whether a validation only repeats that of the weights a stage went back to."""
    return bool(row.get("weights_step", row.get("step")) != row.get("step"))


def decision_sentence(decision: Row) -> str:
    """How a stage ended, why, and which weights go on."""
    stage, stopped, chosen = decision["stage"], decision["stopped_at"], decision["chosen_step"]
    planned = decision.get("steps_planned")
    early = planned is not None and stopped - decision["started_at"] < planned
    verb = "stopped" if early or chosen != stopped else "done"
    back = f"; rolled back to step {chosen}" if chosen != stopped else ""
    reason = f": {decision['reason']}" if decision.get("reason") else ""
    return f"{stage} {verb} at step {stopped}{reason}{back}"
