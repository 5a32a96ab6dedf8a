"""The report page: sections in reading order, put into one HTML file that needs nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from sparing.report.examples import HEDGE_WORDS, choose_examples, example_figure
from sparing.report.figures import cursor_data, stage_spans, timeline, training_curves
from sparing.report.histograms import histograms
from sparing.report.load import Decision, Run
from sparing.report.markup import DASH, Child, Markup, el, has, join, num, percent, short, signed
from sparing.report.plot import step_axis
from sparing.report.results import breakdown_table, change_figure, easy_against_hard, results_table, table
from sparing.report.toml_text import to_toml
from sparing.report.words import decision_sentence, headline, plural

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


def render(run: Run) -> str:
    """The whole page as text."""
    words = headline(run)
    body = [
        _header(run),
        el("h1", words.title),
        [el("p", sentence, class_="lead") for sentence in words.lead],
        el("p", words.warning, class_="warning", role="note") if words.warning else None,
        _key_numbers(run),
        _over_the_steps(run),
        _base_against_final(run),
        _lengths(run),
        _examples(run),
        _decisions(run),
        _settings(run),
        _definitions(run),
    ]
    resources = files("sparing.report")
    style = Markup(resources.joinpath("style.css").read_text(encoding="utf-8"))
    script = Markup(resources.joinpath("page.js").read_text(encoding="utf-8"))
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"sparing: {run.path.resolve().name}"),
        el("style", style),
    )
    page = el("html", head, el("body", el("main", *body), el("script", script)), lang="en")
    return f"<!doctype html>\n{page}\n"


def _header(run: Run) -> Markup:
    facts = [
        f"run {run.path.resolve().name}",
        f"seed {run.setting('seed', DASH)}",
        f"model {run.setting('model.path', DASH)}",
    ]
    if run.summary and math.isfinite(seconds := _number(run.summary, "seconds")):
        facts.append(_duration(seconds))
    return el("header", el("b", "sparing"), " ", " · ".join(facts))


def _number(row: Mapping[str, Any], key: str) -> float:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) else math.nan


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{num(seconds)} seconds"
    if seconds < 5400:
        return f"{num(seconds / 60)} minutes"
    return f"{num(seconds / 3600, 1)} hours"


def _key_numbers(run: Run) -> Markup | None:
    """Four figures a reader takes away: length and accuracy, trained and unseen (means over domains)."""
    cards = []
    for label, trained in (("trained", True), ("unseen", False)):
        domains = [domain for domain in run.domains if domain.trained is trained]
        if domains:
            length = sum(d.relative_length for d in domains) / len(domains) - 1
            accuracy = sum(d.delta_accuracy for d in domains) / len(domains)
            of = domains[0].name if len(domains) == 1 else f"mean of {len(domains)} domains"
            cards.append(_card(percent(length, sign=True), "response length", f"{label}, {of}", "length"))
            cards.append(_card(signed(accuracy), "accuracy", f"{label}, {of}", "accuracy"))
    return el("dl", cards, class_="key-numbers") if cards else None


def _card(value: str, what: str, where: str, class_: str) -> Markup:
    return el("div", el("dt", what, el("span", where)), el("dd", value, class_=f"ink-{class_}"))


def _section(identity: str, title: str, *children: Child) -> Markup:
    return el("section", el("h2", title, id=identity), *children, aria_labelledby=identity)


def _over_the_steps(run: Run) -> Markup | None:
    if not run.steps and not run.validations:
        return _section("steps", "Over the steps", el("p", "No step has been recorded yet.", class_="none"))
    spans = stage_spans(run)
    x = step_axis(0, spans[-1].last)
    parts: list[Child] = []
    if run.validations:
        parts.append(timeline(run, spans, x))
        parts.append(
            el(
                "p",
                "Shaded areas are stages. Bands are 95 % intervals over the validation problems; they are wider than "
                "what paired comparisons between steps can resolve. Ring: checkpoint kept. Dashed with hollow points: "
                "steps thrown away by a rollback. Point at a curve to read every panel at that step.",
                class_="caption",
            )
        )
        parts.append(el("details", el("summary", "The validation numbers"), _validation_table(run)))
    if run.steps:
        buckets = (
            " Long runs are drawn as means with the range of the steps behind them." if len(run.steps) > 400 else ""
        )
        parts += [
            el("h3", "In the training batches"),
            training_curves(run, spans, x),
            el(
                "p", f"One value a step, on the same axis of steps and with the same stages.{buckets}", class_="caption"
            ),
        ]
    parts.append(cursor_data(run, x))
    return _section("steps", "Over the steps", *parts)


def _validation_table(run: Run) -> Markup:
    extras = (
        ("length_min", "shortest"),
        ("length_max", "longest"),
        ("truncated_share", "cut"),
        ("instant_share", "instant"),
    )
    extras = tuple((key, label) for key, label in extras if any(key in v.values for v in run.validations))
    head: list[Child] = ["Stage"]
    head += [
        el("th", text, scope="col", class_="num")
        for text in ("step", "accuracy", "95 % interval", "tokens", "95 % interval", *(label for _, label in extras))
    ]
    rows = []
    for v in run.validations:
        cells = [num(v.step), num(v.accuracy, 3)]
        cells.append(
            f"{num(v.accuracy_interval[0], 3)} to {num(v.accuracy_interval[1], 3)}"
            if has(v.accuracy_interval)
            else DASH
        )
        cells.append(num(v.length, 1))
        cells.append(
            f"{num(v.length_interval[0], 1)} to {num(v.length_interval[1], 1)}" if has(v.length_interval) else DASH
        )
        for key, _ in extras:
            value = v.values.get(key, math.nan)
            cells.append(percent(value) if key.endswith("share") else num(value))
        rows.append(el("tr", el("th", v.stage.name, scope="row"), [el("td", cell, class_="num") for cell in cells]))
    return table(head, [el("tbody", rows)], "Validation, every point.")


def _base_against_final(run: Run) -> Markup | None:
    if not run.domains:
        return None
    tiers = easy_against_hard(run)
    breakdown = breakdown_table(run)
    return _section(
        "results",
        "Base against final",
        change_figure(run),
        el(
            "p",
            "Change from base to final with its 95 % interval, on test problems that chose nothing.",
            class_="caption",
        ),
        results_table(run),
        el("p", tiers) if tiers else None,
        breakdown,
        el(
            "p",
            "Correct responses: only those. Both always correct: the same problems on both sides, so this column is free "
            "of any change in what is solved. Accuracy, uncut, leaves out responses that ran into the limit: a gain that is "
            "missing there came from no longer being cut. Thinking share: characters inside the thinking block; it falls if "
            "reasoning moves into the answer.",
            class_="caption",
        )
        if breakdown
        else None,
    )


def _lengths(run: Run) -> Markup | None:
    figure = histograms(run)
    return _section("lengths", "How long the responses are", figure) if figure else None


def _examples(run: Run) -> Markup | None:
    examples = choose_examples(run)
    if not examples:
        return None
    return _section(
        "examples",
        "The same problem, before and after",
        el(
            "p",
            "Chosen by rule: problems whose lengths are nearest to the median of their kind, and of their responses the correct "
            f"one of middle length. Underlined: {', '.join(HEDGE_WORDS)}.",
            class_="caption",
        ),
        [example_figure(run, example) for example in examples],
    )


def _decisions(run: Run) -> Markup | None:
    if not run.decisions:
        return None
    return _section(
        "decisions", "Why each stage ended", el("ol", [_decision(d) for d in run.decisions], class_="decisions")
    )


def _decision(decision: Decision) -> Markup:
    rows = [
        el("tr", el("th", key.replace("_", " "), scope="row"), el("td", _evidence(value), class_="num"))
        for key, value in decision.evidence.items()
    ]
    numbers = el(
        "details", el("summary", "The numbers behind it"), el("div", el("table", el("tbody", rows)), class_="scroll")
    )
    return el(
        "li",
        el("p", el("b", decision_sentence(decision))),
        el("p", decision.reason) if decision.reason else None,
        numbers if rows else None,
    )


def _evidence(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return short(float(value))
    if isinstance(value, list):
        return ", ".join(_evidence(item) for item in value) or DASH
    return DASH if value is None else str(value)


def _settings(run: Run) -> Markup:
    rows = [el("tr", el("th", label, scope="row"), el("td", _setting_words(run, names))) for label, names in SETTINGS]
    stages = " → ".join(f"{s.get('type')} {s.get('steps')}" for s in run.setting("curriculum.stages", []) or [])
    loops = int(run.setting("curriculum.loops", 1) or 1)
    rows.insert(0, el("tr", el("th", "Curriculum", scope="row"), el("td", f"{stages}, {plural(loops, 'loop')}")))
    rows.insert(0, el("tr", el("th", "Seed", scope="row"), el("td", str(run.setting("seed", DASH)))))
    rows += [el("tr", el("th", name, scope="row"), el("td", text)) for name, text in _measured(run)]
    return _section(
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
    if math.isfinite(seconds := _number(summary, "seconds")):
        rows.append(("Time", _duration(seconds)))
    if math.isfinite(memory := _number(summary, "peak_memory_bytes")):
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


def _definitions(run: Run) -> Markup:
    test_k, k = run.setting("validation.test_k", "k"), run.setting("validation.k", "k")
    terms = (
        ("Response length", "Tokens the model generated: thinking, answer and end token. Prompt tokens do not count."),
        (
            "Accuracy, avg@k",
            f"Share of correct responses over k responses to every problem, averaged over problems; k is {test_k} for base against final and {k} in validation. It is not pass@k. Responses cut at the token limit, with thinking that never closed, or without a verdict count as not correct.",
        ),
        (
            "Relative length",
            "Mean length of final over mean length of base on the same problems; a change of −71 % leaves 29 %.",
        ),
        (
            "95 % interval",
            "Paired nested bootstrap: problems are drawn again, then responses within each, for base and final together. “Significant”, “rose”, “fell” and “shorter” mean that this interval excludes no change; with many domains, about one in twenty intervals misses by chance.",
        ),
        (
            "Mastered",
            "All rollouts of a problem in a training step are correct. Only then are those longer than the median penalised, down to −1 at the longest (Eq. 1).",
        ),
        (
            "Shortest known, excess removed",
            "Length of the shortest known good response (the teacher's), and the share of the length above it that is gone.",
        ),
        ("Instant", "Responses with next to no thinking; their share rises when a model is compressed too far."),
    )
    limits = (
        f"This is one training run (seed {run.setting('seed', DASH)}). The intervals cover the choice of problems and of responses, not how another seed would have trained.",
        "Base and final answered at the temperature, top-p and token limit named above; other settings give other lengths.",
        "Checkpoints were chosen on validation problems. Test problems chose nothing.",
    )
    return _section(
        "definitions",
        "Definitions and limits",
        el("dl", [join((el("dt", term), el("dd", text))) for term, text in terms], class_="definitions"),
        el("ul", [el("li", limit) for limit in limits]),
        el("p", "Notes on the files: " + " ".join(run.notes), class_="warning") if run.notes else None,
    )
