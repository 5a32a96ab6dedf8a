"""The report page: sections in reading order, put into one HTML file that needs nothing else."""

from __future__ import annotations

import math
from importlib.resources import files

from sparing.report.appendix import decisions, definitions, settings
from sparing.report.curves import MOST_COLUMNS, cursor_data, training_curves
from sparing.report.examples import choose_examples, example_figure
from sparing.report.histograms import histograms
from sparing.report.markup import (
    DASH,
    NBSP,
    Child,
    Markup,
    duration,
    el,
    has,
    num,
    percent,
    section,
    signed,
    table,
)
from sparing.report.plot import step_axis
from sparing.report.records import HEDGES, Run, number
from sparing.report.results import breakdown_table, change_figure, easy_against_hard, results_table
from sparing.report.stages import stage_spans
from sparing.report.timeline import timeline
from sparing.report.words import delta_interval, headline, length_interval


def render(run: Run) -> str:
    """The whole page as text."""
    words = headline(run)
    body = [
        _header(run),
        el("h1", words.title),
        [el("p", text, class_="lead loss" if text in words.losses else "lead") for text in words.lead],
        el("p", words.warning, class_="warning", role="note") if words.warning else None,
        _key_numbers(run),
        _over_the_steps(run),
        _base_against_final(run),
        _lengths(run),
        _examples(run),
        decisions(run),
        settings(run),
        definitions(run),
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
    if run.summary and math.isfinite(seconds := number(run.summary, "seconds")):
        facts.append(duration(seconds))
    return el("header", el("b", "sparing"), " ", " · ".join(facts))


def _key_numbers(run: Run) -> Markup | None:
    """Four figures a reader takes away: length and accuracy, trained and unseen, with interval or range."""
    cards = []
    for kind, trained in (("trained", True), ("unseen", False)):
        domains = [domain for domain in run.domains if domain.trained is trained]
        if not domains:
            continue
        lengths = [domain.relative_length - 1 for domain in domains]
        accuracies = [domain.delta_accuracy for domain in domains]
        if len(domains) == 1:
            where = f"{kind}, {domains[0].name}"
            spans = [f"95{NBSP}%: {span(domains[0])}" for span in (length_interval, delta_interval)]
        else:
            where = f"{kind}, mean of {len(domains)} domains"
            spans = [
                f"{percent(min(lengths), sign=True)} to {percent(max(lengths), sign=True)}",
                f"{signed(min(accuracies))} to {signed(max(accuracies))}",
            ]
        length, accuracy = sum(lengths) / len(domains), sum(accuracies) / len(domains)
        cards.append(_card(percent(length, sign=True), "response length", where, spans[0], "length"))
        cards.append(_card(signed(accuracy), "accuracy", where, spans[1], "accuracy"))
    return el("dl", cards, class_="key-numbers") if cards else None


def _card(value: str, what: str, where: str, span: str, class_: str) -> Markup:
    return el("div", el("dt", what, el("span", where), el("span", span)), el("dd", value, class_=f"ink-{class_}"))


def _over_the_steps(run: Run) -> Markup | None:
    if not run.steps and not run.validations:
        return section("steps", "Over the steps", el("p", "No step has been recorded yet.", class_="none"))
    spans = stage_spans(run)
    x = step_axis(0, spans[-1].last)
    parts: list[Child] = []
    if run.validations:
        parts.append(timeline(run, spans, x))
        parts.append(
            el(
                "p",
                "Shaded areas are stages, paler where a rollback threw steps away. Bands are 95 % intervals over the validation problems; they are wider than "
                "what paired comparisons between steps can resolve. Ring: checkpoint kept. Dashed with hollow points: "
                "validations of steps thrown away. Point at a curve to read every panel at that step.",
                class_="caption",
            )
        )
        parts.append(el("details", el("summary", "The validation numbers"), _validation_table(run)))
    if run.steps:
        buckets = (
            " Long runs are drawn as means with the range of the steps behind them."
            if len(run.steps) > MOST_COLUMNS
            else ""
        )
        parts += [
            el("h3", "In the training batches"),
            training_curves(run, spans, x),
            el(
                "p", f"One value a step, on the same axis of steps and with the same stages.{buckets}", class_="caption"
            ),
        ]
    parts.append(cursor_data(run, x))
    return section("steps", "Over the steps", *parts)


def _validation_table(run: Run) -> Markup:
    known = (
        ("length_min", "shortest"),
        ("length_max", "longest"),
        ("truncated_share", "cut"),
        ("instant_share", "instant"),
    )
    extras = tuple((key, label) for key, label in known if any(key in v.values for v in run.validations))
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
    return section(
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
            f"reasoning moves into the answer. Hedges: {', '.join(HEDGES)}, per 1,000 tokens.",
            class_="caption",
        )
        if breakdown
        else None,
    )


def _lengths(run: Run) -> Markup | None:
    figure = histograms(run)
    return section("lengths", "How long the responses are", figure) if figure else None


def _examples(run: Run) -> Markup | None:
    examples = choose_examples(run)
    if not examples:
        return None
    return section(
        "examples",
        "The same problem, before and after",
        el(
            "p",
            "Chosen by rule: the responses shown are the correct ones of middle length to the problem where base and final are "
            f"nearest to their median lengths for that kind of problem. Hedging words are underlined: {', '.join(HEDGES)}.",
            class_="caption",
        ),
        [example_figure(run, example) for example in examples],
    )
