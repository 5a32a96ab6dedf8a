"""The run in sentences, each derived from its numbers and no kinder than they are.

"Shorter", "fell" and "rose" are used only where the 95 % interval excludes no change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparing.report.markup import NBSP, has, num, percent, signed
from sparing.report.records import Comparison, Decision, Run

TO = " to "
ARROW = " → "


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """The title sentence, the sentences under it, those of them that tell of a loss, and what limits the page itself."""

    title: str
    lead: tuple[str, ...]
    losses: tuple[str, ...] = ()
    warning: str = ""


def headline(run: Run) -> Headline:
    """What came of the run."""
    if not run.complete:
        return _incomplete(run)
    trained = [domain for domain in run.domains if domain.trained]
    unseen = [domain for domain in run.domains if not domain.trained]
    if not run.domains:
        title, sentences = _validation_words(run)
        return Headline(
            title=title,
            lead=(*sentences, "No test set was given (data.test is empty), so base and final were not compared."),
        )
    if len(trained) == 1:
        title = _title(trained[0])
    else:
        title = _group_title("trained", trained) if trained else _group_title("tested", unseen)
    lead = [(_sentence(domain), accuracy_fell(domain)) for domain in trained if len(trained) <= 2]
    if not lead:
        lead.append(_accuracy_words(trained or unseen))
    if trained and unseen:
        lead.append((_group_sentence("unseen", unseen), False))
        lead.append(_accuracy_words(unseen))
    return Headline(
        title=title,
        lead=tuple(text for text, _ in lead),
        losses=tuple(text for text, is_loss in lead if is_loss),
        warning=_idle_gate(run),
    )


def is_shorter(domain: Comparison) -> bool:
    """Whether responses are shorter beyond the 95 % interval."""
    return has(domain.relative_interval) and domain.relative_interval[1] < 1


def is_longer(domain: Comparison) -> bool:
    """Whether responses are longer beyond the 95 % interval."""
    return has(domain.relative_interval) and domain.relative_interval[0] > 1


def accuracy_fell(domain: Comparison) -> bool:
    """Whether accuracy fell beyond the 95 % interval."""
    return has(domain.delta_interval) and domain.delta_interval[1] < 0


def accuracy_rose(domain: Comparison) -> bool:
    """Whether accuracy rose beyond the 95 % interval."""
    return has(domain.delta_interval) and domain.delta_interval[0] > 0


def length_interval(domain: Comparison) -> str:
    """The 95 % interval of the change in length, such as -74 % to -68 %."""
    low, high = domain.relative_interval
    return percent(low - 1, sign=True) + TO + percent(high - 1, sign=True) if has(domain.relative_interval) else ""


def delta_interval(domain: Comparison) -> str:
    """The 95 % interval of the change in accuracy, such as -0.005 to +0.045."""
    low, high = domain.delta_interval
    return signed(low) + TO + signed(high) if has(domain.delta_interval) else ""


def decision_sentence(decision: Decision) -> str:
    """What a stage did, in one sentence."""
    steps = decision.stopped_at - decision.started_at
    name = f"The {decision.stage.name} stage"
    if decision.rolled_back:
        return (
            f"{name} was stopped at step {decision.stopped_at} and went back to the checkpoint of step "
            f"{decision.chosen_step}; the {decision.stopped_at - decision.chosen_step} steps after it were thrown away."
        )
    return f"{name} ended at step {decision.stopped_at} after {steps} steps and kept its last checkpoint."


def plural(count: int, noun: str) -> str:
    """`1 domain`, `3 domains`."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _title(domain: Comparison) -> str:
    accuracy = f"{num(domain.base_accuracy, 2)}{ARROW}{num(domain.final_accuracy, 2)}"
    fell = ", a significant loss" if accuracy_fell(domain) else ""
    change = percent(abs(1 - domain.relative_length))
    if is_shorter(domain):
        return f"Responses on {domain.name} are {change} shorter at accuracy {accuracy}{fell}."
    if is_longer(domain):
        return f"Responses on {domain.name} are {change} longer, not shorter, at accuracy {accuracy}{fell}."
    return f"Responses on {domain.name} did not get reliably shorter; accuracy {accuracy}{fell}."


def _sentence(domain: Comparison) -> str:
    length = (
        f"On {domain.name}, trained on, the mean response went from {num(domain.base_length)} to "
        f"{num(domain.final_length)} tokens ({percent(domain.relative_length - 1, sign=True)}"
    )
    if has(domain.relative_interval):
        length += f", 95{NBSP}% interval {length_interval(domain)}"
    verdict = "rose" if accuracy_rose(domain) else "fell" if accuracy_fell(domain) else "shows no significant change"
    accuracy = f"accuracy {verdict} (change {signed(domain.delta_accuracy)}"
    if has(domain.delta_interval):
        accuracy += f", 95{NBSP}% interval {delta_interval(domain)}"
    return f"{length}); {accuracy})."


def _range(values: Sequence[float]) -> str:
    low, high = percent(min(values)), percent(max(values))
    return low if low == high else f"{low}{TO}{high}"


def _group_title(kind: str, domains: Sequence[Comparison]) -> str:
    shorter = [1 - domain.relative_length for domain in domains if is_shorter(domain)]
    if not shorter:
        return f"Responses did not get reliably shorter on any of the {plural(len(domains), kind + ' domain')}."
    fell = [domain for domain in domains if accuracy_fell(domain)]
    loss = f"; accuracy fell significantly on {len(fell)}" if fell else ""
    if len(shorter) == len(domains):
        return f"Responses on {plural(len(domains), kind + ' domain')} are {_range(shorter)} shorter{loss}."
    return (
        f"Responses on {len(shorter)} of {plural(len(domains), kind + ' domain')} are {_range(shorter)} shorter{loss}."
    )


def _group_sentence(kind: str, domains: Sequence[Comparison]) -> str:
    shorter = [domain for domain in domains if is_shorter(domain)]
    others = [domain.name for domain in domains if not is_shorter(domain)]
    if len(domains) == 1:
        (only,) = domains
        length = f"{num(only.base_length)}{TO}{num(only.final_length)} tokens"
        interval = f", 95{NBSP}% interval {length_interval(only)}" if has(only.relative_interval) else ""
        verdict = "got shorter" if shorter else "got longer" if is_longer(only) else "did not get reliably shorter"
        change = percent(only.relative_length - 1, sign=True)
        return f"Without being trained on, {only.name} {verdict}: {length} ({change}{interval})."
    noun = plural(len(domains), kind + " domain")
    if not shorter:
        return f"Without being trained on, none of the {noun} got reliably shorter."
    cut = _range([1 - domain.relative_length for domain in shorter])
    if not others:
        return f"Without being trained on, {noun} are {cut} shorter."
    return f"Without being trained on, {len(shorter)} of {noun} got {cut} shorter; not reliably: {', '.join(others)}."


def _accuracy_words(domains: Sequence[Comparison]) -> tuple[str, bool]:
    """What happened to accuracy, and whether it fell anywhere."""
    fell = [domain for domain in domains if accuracy_fell(domain)]
    rose = [domain for domain in domains if accuracy_rose(domain)]
    parts = [
        f"{verb} significantly on {', '.join(f'{domain.name} ({signed(domain.delta_accuracy)})' for domain in some)}"
        for verb, some in (("fell", fell), ("rose", rose))
        if some
    ]
    if not parts:
        return f"Accuracy shows no significant change {'on any of them' if len(domains) > 1 else 'there'}.", False
    rest = len(domains) - len(fell) - len(rose)
    tail = f"; no significant change on the other {rest}" if rest else ""
    return f"Accuracy {' and '.join(parts)}{tail}.", bool(fell)


def _idle_gate(run: Run) -> str:
    """A warning where compression stages penalised nothing at all, so the method had no part in the result."""
    compressing = [step.values for step in run.steps if step.stage.name == "compression"]
    if not compressing or any(step.get("penalty_fired_share") for step in compressing):
        return ""
    mastered = any(step.get("mastered_share") for step in compressing)
    reason = "no mastered group had a spread in length" if mastered else "no problem was mastered"
    return (
        f"No response was penalised in any of the {plural(len(compressing), 'compression step')}: {reason}. "
        "Mastery needs every rollout of a problem to be correct."
    )


def _incomplete(run: Run) -> Headline:
    last = max([step.step for step in run.steps] + [v.step for v in run.validations], default=0)
    planned = planned_steps(run)
    of = f" of at most {planned}" if planned else ""
    title, lead = _validation_words(run)
    return Headline(
        title=title,
        lead=lead,
        warning=f"This run is incomplete: {plural(last, 'step')}{of} recorded and no summary yet. "
        f"What follows is what its folder holds so far. {_idle_gate(run)}",
    )


def planned_steps(run: Run) -> int:
    """Steps of all stages and loops at most; one accuracy stage joins two loops."""
    stages = run.setting("curriculum.stages", []) or []
    loops = int(run.setting("curriculum.loops", 1) or 1)
    steps = [int(stage.get("steps", 0)) for stage in stages]
    joined = len(stages) > 1 and stages[0].get("type") == stages[-1].get("type") == "accuracy"
    return sum(steps) + (loops - 1) * sum(steps[1 if joined else 0 :])


def _validation_words(run: Run) -> tuple[str, tuple[str, ...]]:
    if not run.validations:
        return "Nothing has been validated yet.", ()
    first, last = run.kept_validations[0], run.kept_validations[-1]
    where = f"Validation accuracy is {num(last.accuracy, 3)} at a mean length of {num(last.length)} tokens at step {last.step}"
    if last.step == first.step:
        return f"{where}, before any training.", ()
    change = percent(last.length / first.length - 1, sign=True) if first.length else ""
    return (
        f"By step {last.step}, validation responses went from {num(first.length)} to {num(last.length)} tokens "
        f"({change}).",
        (
            f"Validation accuracy went from {num(first.accuracy, 3)} to {num(last.accuracy, 3)} "
            f"({signed(last.accuracy - first.accuracy)}). Validation problems also choose the checkpoint, so this is "
            "not a test result.",
        ),
    )
