"""The closing sections: why stages ended, settings and how to run it again, definitions and limits."""

from __future__ import annotations

import json
import math
from typing import Any

from sparing.report.markup import (
    DASH,
    MINUS,
    Child,
    Markup,
    duration,
    el,
    join,
    num,
    numeric_heads,
    percent,
    section,
    short,
    table,
)
from sparing.report.records import Decision, Run, number
from sparing.report.toml_text import to_toml
from sparing.report.words import decision_sentence, plural

SETTINGS = (
    ("Model", ("model.path", "model.dtype", "model.autocast")),
    ("Rollouts", ("rollout.num_rollouts", "rollout.max_tokens", "rollout.temperature", "rollout.top_p")),
    ("Mixture", ("mixture.batch_size", "mixture.rho", "mixture.rest", "mixture.max_refills")),
    ("Penalty", ("penalty.coef", "penalty.min_spread")),
    ("Objective", ("objective.algorithm", "objective.clip_low", "objective.clip_high", "objective.updates_per_batch")),
    (
        "Optimizer",
        ("optimizer.learning_rate", "optimizer.warmup_steps", "optimizer.max_grad_norm", "curriculum.optimizer"),
    ),
    (
        "Early stopping",
        ("early_stopping.enabled", "early_stopping.patience", "early_stopping.confidence", "early_stopping.tolerance"),
    ),
    (
        "Validation",
        ("validation.every", "validation.k", "validation.test_k", "validation.temperature", "validation.top_p"),
    ),
)


def decisions(run: Run) -> Markup | None:
    """Every stage's end in a sentence, the rule's reason and the numbers behind it."""
    if not run.decisions:
        return None
    return section(
        "decisions", "Why each stage ended", el("ol", [_decision(run, d) for d in run.decisions], class_="decisions")
    )


def _decision(run: Run, decision: Decision) -> Markup:
    scalars = {key: value for key, value in decision.evidence.items() if not isinstance(value, list)}
    lists = {key: value for key, value in decision.evidence.items() if isinstance(value, list)}
    steps = _validated_steps(run, decision)
    columns = {key: value for key, value in lists.items() if len(value) == len(steps)}
    scalars.update({key: value for key, value in lists.items() if key not in columns})
    parts: list[Child] = []
    if scalars:
        facts = [
            el("tr", el("th", _words(key), scope="row"), el("td", _evidence(value))) for key, value in scalars.items()
        ]
        parts.append(el("div", el("table", el("tbody", facts)), class_="scroll"))
    if columns:
        rows = [
            el(
                "tr",
                el("td", num(step), class_="num"),
                [el("td", _evidence(v[i]), class_="num") for v in columns.values()],
            )
            for i, step in enumerate(steps)
        ]
        heads = numeric_heads("step", *map(_words, columns))
        parts.append(table(heads, [el("tbody", rows)], "What the rule saw at each validation of the stage."))
    return el(
        "li",
        el("p", el("b", decision_sentence(decision))),
        el("p", decision.reason) if decision.reason else None,
        el("details", el("summary", "The numbers behind it"), *parts) if parts else None,
    )


def _validated_steps(run: Run, decision: Decision) -> list[int]:
    """Steps whose validations the rule compared: that of the checkpoint the stage started from, then the stage's own."""
    own = [v.step for v in run.validations if v.stage == decision.stage and v.step <= decision.stopped_at]
    return own if own[:1] == [decision.started_at] else [decision.started_at, *own]


def _words(key: str) -> str:
    return key.replace("_", " ")


def _evidence(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return short(float(value))
    if isinstance(value, list):
        return ", ".join(_evidence(item) for item in value) or DASH
    return DASH if value is None else str(value)


def settings(run: Run) -> Markup:
    """The settings that matter, what the run took, and the recipe to run it again."""
    rows = [el("tr", el("th", label, scope="row"), el("td", _setting_words(run, names))) for label, names in SETTINGS]
    stages = " → ".join(f"{s.get('type')} {s.get('steps')}" for s in run.setting("curriculum.stages", []) or [])
    loops = int(run.setting("curriculum.loops", 1) or 1)
    rows.insert(0, el("tr", el("th", "Curriculum", scope="row"), el("td", f"{stages}, {plural(loops, 'loop')}")))
    rows.insert(0, el("tr", el("th", "Seed", scope="row"), el("td", str(run.setting("seed", DASH)))))
    rows += [el("tr", el("th", name, scope="row"), el("td", text)) for name, text in _measured(run)]
    return section(
        "settings",
        "Settings, and how to run it again",
        el("div", el("table", el("tbody", rows), class_="settings"), class_="scroll"),
        el(
            "p",
            "Save the recipe below as ",
            el("code", "recipe.toml"),
            " and run ",
            el("code", "sparing train recipe.toml --set output=runs/again"),
            ". The same versions on the same kind of machine repeat the run step by step.",
        ),
        el("details", el("summary", "The resolved recipe"), el("pre", to_toml(run.config), tabindex="0")),
    )


def _setting_words(run: Run, names: tuple[str, ...]) -> Markup:
    """`key value` pairs; an unset value takes the algorithm's own, so it is left out."""
    parts = []
    for name in names:
        value = run.setting(name)
        if value is not None:
            text = json.dumps(value) if isinstance(value, bool) else str(value)
            parts.append(el("span", f"{name.partition('.')[2]} ", el("b", text), class_="setting"))
    return join(parts)


def _measured(run: Run) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    summary = run.summary or {}
    if math.isfinite(seconds := number(summary, "seconds")):
        rows.append(("Time", duration(seconds)))
    if math.isfinite(memory := number(summary, "peak_memory_bytes")):
        rows.append(("Peak memory", f"{num(memory / 2**30, 2)} GiB"))
    generated = sum(v for s in run.steps if math.isfinite(v := s.values.get("groups_generated", math.nan)))
    used = sum(v for s in run.steps if math.isfinite(v := s.values.get("groups_used", math.nan)))
    if generated:
        rows.append(
            ("Groups", f"{num(generated)} generated, {num(used)} used ({percent(1 - used / generated)} in vain)")
        )
    for holder in (summary, run.config):
        versions = holder.get("versions")
        if isinstance(versions, dict):
            rows.append(("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())))
            break
    return rows


def definitions(run: Run) -> Markup:
    """What the words and numbers mean, and what one run cannot show."""
    test_k, k = run.setting("validation.test_k", "k"), run.setting("validation.k", "k")
    terms = (
        ("Response length", "Tokens the model generated: thinking, answer and end token. Prompt tokens do not count."),
        (
            "Accuracy, avg@k",
            f"Share of correct responses over k responses to every problem, averaged over problems; k is {test_k} for base against final and {k} in validation. It is not pass@k. Responses cut at the token limit, with thinking that never closed, or without a verdict count as not correct.",
        ),
        (
            "Relative length",
            f"Mean length of final over mean length of base on the same problems; a change of {MINUS}71 % leaves 29 %.",
        ),
        (
            "95 % interval",
            "Paired nested bootstrap: problems are drawn again, then responses within each, for base and final together. “Significant”, “rose”, “fell” and “shorter” mean that this interval excludes no change; drawing responses too makes it somewhat wider than it must be, and with many domains up to one in twenty still misses by chance.",
        ),
        (
            "Mastered",
            f"All rollouts of a problem in a training step are correct. Only then are those longer than the median penalised, down to {MINUS}1 at the longest (Eq. 1).",
        ),
        (
            "Shortest known, excess removed",
            "Length of the shortest known good response (the teacher's), and the share of the length above it that is gone.",
        ),
        (
            "Instant",
            "Wrong answers given with next to no thinking (at most 8 tokens); their share rises when a model is compressed too far.",
        ),
    )
    limits = (
        f"This is one training run (seed {run.setting('seed', DASH)}). The intervals cover the choice of problems and of responses, not how another seed would have trained.",
        "Base and final answered at the temperature, top-p and token limit named above; other settings give other lengths.",
        "Checkpoints were chosen on validation problems. Test problems chose nothing.",
    )
    return section(
        "definitions",
        "Definitions and limits",
        el("dl", [join((el("dt", term), el("dd", text))) for term, text in terms], class_="definitions"),
        el("ul", [el("li", limit) for limit in limits]),
        el("p", "Notes on the files: " + " ".join(run.notes), class_="warning") if run.notes else None,
    )
