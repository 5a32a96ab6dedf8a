"""The lab: a tiny reasoning model that overthinks, and unlimited problems to watch it learn on."""

from pathlib import Path

from sparing.lab.families import FAMILIES
from sparing.lab.problems import TRAINED_DOMAIN, make_problems


def base_model_path() -> Path:
    """The Hugging Face folder of the base model that ships with the package."""
    return Path(__file__).parent / "base"


__all__ = ["FAMILIES", "TRAINED_DOMAIN", "base_model_path", "make_problems"]
