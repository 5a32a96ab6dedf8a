"""The paper as pure functions on arrays: no settings, no files, no logging, no global random state.

Importing this package needs numpy only; `sparing.method.objective` needs torch.
"""

from sparing.method.advantage import group_advantages
from sparing.method.early_stopping import Decision, ValidationPoint, detect_pre_collapse
from sparing.method.length_penalty import soft_length_penalty
from sparing.method.mastery import is_mastered, max_length, pass_rate, safe_length
from sparing.method.mixing import MixturePlan, plan_mixture, quota
from sparing.method.reward import ShapedReward, shaped_reward
from sparing.method.statistics import (
    Interval,
    accuracy_interval,
    avg_at_k,
    delta_accuracy_interval,
    instant_share,
    mean_length,
    pass_at_k,
    relative_length,
    relative_length_interval,
    repetition_share,
    word_counts,
    word_rates,
)

__all__ = [
    "Decision",
    "Interval",
    "MixturePlan",
    "ShapedReward",
    "ValidationPoint",
    "accuracy_interval",
    "avg_at_k",
    "delta_accuracy_interval",
    "detect_pre_collapse",
    "group_advantages",
    "instant_share",
    "is_mastered",
    "max_length",
    "mean_length",
    "pass_at_k",
    "pass_rate",
    "plan_mixture",
    "quota",
    "relative_length",
    "relative_length_interval",
    "repetition_share",
    "safe_length",
    "shaped_reward",
    "soft_length_penalty",
    "word_counts",
    "word_rates",
]
