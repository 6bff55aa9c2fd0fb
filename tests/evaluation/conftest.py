"""The distribution of a law that `tests.distributions.families.law` parametrizes."""

from tests.distributions.conftest import dist

__all__ = ["dist"]
