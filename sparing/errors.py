"""Errors a user can act on: each message names the value, the rule and the remedy."""

from __future__ import annotations


class SparingError(Exception):
    """Base of every error that the command line prints without a traceback."""


class RecipeError(SparingError):
    """A recipe has an unknown key, a wrong type or an impossible value."""


class DataError(SparingError):
    """A problem file is broken; the message names file and line."""


class ModelError(SparingError):
    """A model folder cannot be used for training or generation."""


class RunError(SparingError):
    """A run folder is missing, incomplete or belongs to another recipe."""


class MethodError(SparingError, ValueError):
    """An argument of a formula breaks that formula's rule: a wrong shape, range or name."""
