"""Problems, prompts and the dynamic sampler."""

from sparing.data.chat import render_prompt
from sparing.data.mastery_table import MasteryTable
from sparing.data.problems import load_problems, split_validation, write_problems
from sparing.data.sampler import MixtureSampler, check_enough_problems

__all__ = [
    "MasteryTable",
    "MixtureSampler",
    "check_enough_problems",
    "load_problems",
    "render_prompt",
    "split_validation",
    "write_problems",
]
