"""Responses to the same problem before and after: which problems to show, and how."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparing.report.load import response_texts
from sparing.report.markup import Child, Markup, el, num, percent
from sparing.report.records import HEDGES, EvalProblem, Run, count_hedges, split_thinking
from sparing.report.words import plural

_HEDGE = re.compile(rf"\b({'|'.join(HEDGES)})\b", re.IGNORECASE)
MOST_CHARS = 12_000  # of a text on the page; the middle of a longer one is left out
Pair = tuple[EvalProblem, EvalProblem]


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A problem to show and why; of the final responses, one with `final_outcome` is shown where there is any."""

    label: str
    base: EvalProblem
    final: EvalProblem
    final_outcome: str = "correct"


def choose_examples(run: Run) -> list[Example]:
    """An easy trained, a hard trained and an unseen problem, each typical of its kind; and one that got worse.

    Typical: the responses that would be shown are closest in length to the median response of base and of final to
    that kind of problem, among problems with a correct response on both sides where there are any. Deterministic.
    """
    pairs = run.pairs
    trained = {domain.name for domain in run.domains if domain.trained}
    inside = [pair for pair in pairs if pair[0].domain in trained]
    outside = _middle_domain(run, [pair for pair in pairs if pair[0].domain not in trained])
    easy, hard = _easy_and_hard(inside)
    hard_unseen = _easy_and_hard(outside)[1] if len({base.tier for base, _ in outside}) > 1 else outside
    examples: list[Example] = []
    for label, candidates in (
        ("Trained domain, easy" if hard else "Trained domain", easy),
        ("Trained domain, hard", hard),
        ("Unseen domain" if trained else "Typical", hard_unseen),
    ):
        pair = _typical(candidates)
        if pair:
            examples.append(Example(label=f"{label}: {pair[0].domain}", base=pair[0], final=pair[1]))
    worse = [pair for pair in pairs if pair[0].accuracy - pair[1].accuracy >= 0.5]
    if worse:
        base, after = min(worse, key=lambda pair: (pair[1].accuracy - pair[0].accuracy, pair[0].id))
        examples.append(
            Example(label=f"One that got worse: {base.domain}", base=base, final=after, final_outcome="incorrect")
        )
    return examples


def _middle_domain(run: Run, pairs: Sequence[Pair]) -> list[Pair]:
    """Of several domains the one whose change in length is in the middle."""
    present = {base.domain for base, _ in pairs}
    names = [d.name for d in sorted(run.domains, key=lambda d: (d.relative_length, d.name)) if d.name in present]
    return [pair for pair in pairs if pair[0].domain == names[len(names) // 2]] if names else list(pairs)


def _easy_and_hard(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Split by tier name where there are two or more, else by how often the base solves the problem."""
    tiers = sorted({base.tier for base, _ in pairs})
    if len(tiers) > 1:
        accuracy = {tier: np.mean([base.accuracy for base, _ in pairs if base.tier == tier]) for tier in tiers}
        easiest, hardest = max(tiers, key=lambda t: accuracy[t]), min(tiers, key=lambda t: accuracy[t])
        if easiest != hardest:
            return [p for p in pairs if p[0].tier == easiest], [p for p in pairs if p[0].tier == hardest]
    solved = [pair for pair in pairs if pair[0].accuracy == 1]
    return (solved, [pair for pair in pairs if pair[0].accuracy < 1]) if solved else (list(pairs), [])


def _typical(pairs: Sequence[Pair]) -> Pair | None:
    good = [pair for pair in pairs if pair[0].accuracy > 0 and pair[1].accuracy > 0] or list(pairs)
    if not good:
        return None
    logs = np.log([[max(side.lengths[typical_response(side)], 1) for side in pair] for pair in good])
    medians = [np.median([length for pair in pairs for length in pair[i].lengths]) for i in (0, 1)]
    distance = np.abs(logs - np.log(np.maximum(medians, 1))).sum(axis=1)
    return good[min(range(len(good)), key=lambda i: (round(float(distance[i]), 9), good[i][0].id))]


def typical_response(problem: EvalProblem, outcome: str = "correct") -> int:
    """Which of the k responses to show: one with that outcome if there is any, nearest to the median length."""
    median = float(np.median(problem.lengths))
    return min(
        range(len(problem.lengths)),
        key=lambda i: (problem.outcomes[i : i + 1] != (outcome,), abs(problem.lengths[i] - median), i),
    )


def example_figure(run: Run, example: Example) -> Markup:
    """Question, then base and final response side by side."""
    base, final = example.base, example.final
    before, after = typical_response(base), typical_response(final, example.final_outcome)
    longest = max(base.lengths[before], final.lengths[after])
    facts = [f"correct answer {base.answer}"]
    if math.isfinite(base.shortest_length):
        facts.append(f"shortest known response {num(base.shortest_length)} tokens")
    facts.append(f"problem {base.id}")
    return el(
        "article",
        el("h3", example.label),
        el("p", base.question, class_="question"),
        el("p", " · ".join(facts), class_="facts"),
        el(
            "div",
            _response(run, "base", base, before, longest),
            _response(run, "final", final, after, longest),
            class_="pair",
        ),
        class_="example",
    )


def _response(run: Run, which: str, problem: EvalProblem, index: int, longest: int) -> Markup:
    texts = response_texts(run, which, problem)
    text = texts[index] if index < len(texts) else ""
    thinking, answer = split_thinking(text, run.thinking_tags)
    outcome = problem.outcomes[index] if index < len(problem.outcomes) else "unknown"
    cut = index < len(problem.truncated) and problem.truncated[index]
    mark = {"correct": "✓ correct", "incorrect": "✗ incorrect"}.get(outcome, "? unknown")
    hedges = count_hedges(text)
    length = problem.lengths[index]
    return el(
        "section",
        el(
            "h4",
            el("span", which, class_=f"side {which}"),
            el("b", f"{num(length)} tokens"),
            el("span", mark, class_=f"verdict {outcome}"),
            el("span", "cut at the limit", class_="verdict") if cut else None,
        ),
        el("div", el("div", style=f"width:{100 * length / max(longest, 1):.1f}%"), class_=f"measure {which}"),
        _block("Thinking", thinking, "thinking") if run.thinking_tags[1] else None,
        _block("Answer", answer or "", "answer")
        if answer is not None
        else el("p", "No answer: the thinking never closed.", class_="none"),
        el(
            "p",
            f"{sum(o == 'correct' for o in problem.outcomes)} of {len(problem.outcomes)} responses correct, "
            f"{num(min(problem.lengths))} to {num(max(problem.lengths))} tokens; "
            f"{plural(hedges, 'hedging word')} in this one",
            class_="facts",
        ),
    )


def _block(label: str, text: str, class_: str) -> Markup:
    shown: Child = _marked(_shortened(text)) if text else el("i", "empty")
    return el(
        "div", el("span", label, class_="block-label"), el("div", shown, class_="text", tabindex="0"), class_=class_
    )


def _shortened(text: str) -> str:
    if len(text) <= MOST_CHARS:
        return text
    half = MOST_CHARS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n\n[… {num(left_out)} characters ({percent(left_out / len(text))}) left out here …]\n\n{text[-half:]}"


def _marked(text: str) -> list[Child]:
    """The text with hedging words underlined; odd pieces of the split are the words."""
    return [el("u", piece) if i % 2 else piece for i, piece in enumerate(_HEDGE.split(text))]
