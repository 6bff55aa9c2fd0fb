"""The distribution of a law that `tests.distributions.families.law` parametrizes."""

import pytest

from tests.distributions.families import FAMILIES


@pytest.fixture
def dist(request):
    return FAMILIES[request.param]
