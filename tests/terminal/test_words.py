import pytest

from sparing.recipe.load import load_recipe
from sparing.terminal.results import excess_removed, result_lines
from sparing.terminal.state import RunState
from sparing.terminal.words import decision_sentence, duration, sparkline, tokens, validation_sentence


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.4, "0s"), (59.6, "1m00s"), (83, "1m23s"), (7300, "2h01m")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_lengths():
    assert [tokens(length) for length in (None, 9.46, 43.2, 12345)] == ["-", "9.5", "43", "12,345"]


def test_a_sparkline_follows_the_means_of_its_parts():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([0, 0, 7, 7], 2) == "▁█"
    assert sparkline([3.0, 3.0], 5) == "▄▄"
    assert sparkline([], 5) == ""


def test_a_validation_is_told_against_the_base():
    state = RunState()
    state.start(load_recipe("lab"), 100, None)
    state.observe_validation({"step": 0, "accuracy": 0.8, "length": 95.6})
    row = {"step": 40, "accuracy": 0.912, "accuracy_low": 0.88, "accuracy_high": 0.94, "length": 43.0}
    assert validation_sentence(state, row) == "validation at step 40: accuracy 0.91 [0.88, 0.94], length 43 (-55 %)"
    told = validation_sentence(state, {**row, "truncated_share": 0.2, "instant_share": 0.01})
    assert told.endswith(", 20 % cut at the limit")
    told = validation_sentence(state, {**row, "step": 60, "weights_step": 40})
    assert told.startswith("step 60 continues from the weights of step 40: accuracy 0.91")


def test_a_decision_is_told_with_its_reason_and_the_weights_that_go_on():
    decision = {"stage": "compression", "started_at": 20, "stopped_at": 60, "chosen_step": 50, "reason": "it fell"}
    assert decision_sentence(decision) == "compression stopped at step 60: it fell; rolled back to step 50"
    whole = {**decision, "chosen_step": 60, "steps_planned": 40, "reason": "all steps done"}
    assert decision_sentence(whole) == "compression done at step 60: all steps done"


FIGURES = {
    "base": {"accuracy": 0.8, "length": 100.0},
    "final": {"accuracy": 0.85, "length": 40.0},
    "delta_accuracy": 0.05,
    "delta_accuracy_ci": [0.01, 0.09],
    "relative_length": 0.4,
    "relative_length_ci": [0.37, 0.44],
    "shortest_length": 20.0,
}
SUMMARY = {
    "seconds": 83,
    "domains": {
        "logic": {**FIGURES, "trained": False, "tiers": {}},
        "arithmetic": {
            **FIGURES,
            "trained": True,
            "tiers": {"easy": FIGURES, "hard": {**FIGURES, "shortest_length": None}},
        },
    },
}


def test_excess_removed():
    assert excess_removed(FIGURES) == pytest.approx((100 - 40) / (100 - 20))
    assert excess_removed({**FIGURES, "shortest_length": None}) is None
    assert excess_removed({**FIGURES, "shortest_length": 120.0}) is None
    assert excess_removed({**FIGURES, "excess_removed": None}) is None


def test_the_plain_table_has_trained_domains_first_and_a_line_for_every_tier():
    lines = [line.split() for line in result_lines(SUMMARY)]
    assert [line[:3] for line in lines[1:]] == [
        ["arithmetic", "all", "trained"],
        ["arithmetic", "easy", "trained"],
        ["arithmetic", "hard", "trained"],
        ["logic", "all", "unseen"],
    ]
    assert lines[1][3:6] == ["0.800", "0.850", "+0.050"]
    assert lines[1][-3:] == ["20", "75", "%"]
