"""Constraints on metrics, in the units of the metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from skuq._typing import FloatArray
from skuq._validation import check_number, check_option
from skuq.metrics._spec import find_spec

_OPERATORS = ("<=", ">=")

Value = TypeVar("Value", float, FloatArray)


@dataclass(frozen=True)
class Constraint:
    """Upper limit ("<=") or lower limit (">=") of a metric."""

    name: str
    operator: str
    limit: float

    def violation(self, value: Value) -> Value:
        excess = value - self.limit if self.operator == "<=" else self.limit - value
        return excess / (abs(self.limit) or 1.0)

    def __str__(self) -> str:
        return f"{self.name} {self.operator} {self.limit:g}"


def read_constraints(subject_to: Mapping[str, tuple[str, float]] | None) -> tuple[Constraint, ...]:
    if subject_to is None:
        return ()
    if not isinstance(subject_to, Mapping):
        raise TypeError(
            f"`subject_to` must be a dict such as {{'ence': ('<=', 0.1)}}, got {type(subject_to).__name__}."
        )
    return tuple(_read_constraint(name, condition) for name, condition in subject_to.items())


def _read_constraint(name: Any, condition: Any) -> Constraint:
    if not isinstance(name, str):
        raise TypeError(f"`subject_to` must have strings as keys, got {name!r}.")
    if name.startswith("neg_"):
        raise ValueError(
            f"`subject_to` must use the name of a metric, got the scorer {name!r}. Use "
            f"{name.removeprefix('neg_')!r}, with a limit in the units of the metric."
        )
    if not isinstance(condition, tuple | list) or len(condition) != 2:
        raise ValueError(f"`subject_to[{name!r}]` must be a pair such as ('<=', 0.1), got {condition!r}.")
    operator = check_option(condition[0], f"subject_to[{name!r}][0]", _OPERATORS)
    constraint = Constraint(name, operator, check_number(condition[1], f"subject_to[{name!r}][1]"))
    _check_range(constraint)
    return constraint


def _check_range(constraint: Constraint) -> None:
    """Raise an error if all values of a skuq metric satisfy the constraint, or if no value does."""
    spec = find_spec(constraint.name)
    if spec is None:
        return
    low, high = spec.bounds
    limit, at_most = constraint.limit, constraint.operator == "<="
    if limit < low if at_most else limit > high:
        share = "no"
    elif limit >= high if at_most else limit <= low:
        share = "every"
    else:
        return
    hint = " Pass coverages and rates as fractions, not as percentages." if spec.bounds == (0, 1) else ""
    raise ValueError(
        f"`subject_to` must have constraints that some values satisfy and other values violate, got "
        f"'{constraint}'. "
        f"The value of {constraint.name} is always in [{low:g}, {high:g}], and {share} value in this range "
        f"satisfies the constraint.{hint}"
    )
