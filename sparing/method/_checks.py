"""Checks at the entry of the formulas: shape first, then range, each with a message that names the value.

N rollouts of one problem, P problems, K responses of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from sparing.errors import MethodError
from sparing.types import BoolArray, FloatArray


def numbers(name: str, values: ArrayLike, num_axes: int) -> FloatArray:
    """`values` as a non-empty, finite float array with `num_axes` axes."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MethodError(
            f"{name} is not a rectangular array of numbers: {error}; give numbers, equally many a row"
        ) from error
    if array.ndim != num_axes:
        raise MethodError(f"{name} has shape {array.shape}; it needs {num_axes} axes, pass one array of that form")
    if array.size == 0:
        raise MethodError(f"{name} is empty (shape {array.shape}); pass at least one value")
    if not np.isfinite(array).all():
        raise MethodError(f"{name} holds {array[~np.isfinite(array)][0]}; every value must be finite, check its source")
    return array


def lengths(name: str, values: ArrayLike, num_axes: int = 1) -> FloatArray:
    """Response lengths: finite and not negative."""
    array = numbers(name, values, num_axes)
    if (array < 0).any():
        raise MethodError(f"{name} holds {array.min():g}; a response length is a number of tokens, 0 or more")
    return array


def binary(name: str, values: ArrayLike, num_axes: int = 1) -> BoolArray:
    """Values that are 0 or 1 (or bool), as bool."""
    array = numbers(name, values, num_axes)
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        raise MethodError(f"{name} holds {array[wrong][0]:g}; correctness is 0 or 1, shape the reward afterwards")
    return array.astype(np.bool_)


def same_shape(**arrays: FloatArray | BoolArray) -> None:
    """All arrays have the same shape."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise MethodError(f"shapes differ: {listed}; pass one value a rollout in each")


def within(
    name: str, value: float, low: float, high: float, *, open_low: bool = False, open_high: bool = False
) -> None:
    """`value` lies in the interval from `low` to `high`."""
    inside = (low < value if open_low else low <= value) and (value < high if open_high else value <= high)
    if not inside:
        interval = f"{'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
        raise MethodError(f"{name} is {value:g}; it must lie in {interval}")


def one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    """`value` is one of the `allowed` names."""
    if value not in allowed:
        raise MethodError(f"{name} is {value!r}; choose one of {', '.join(allowed)}")
