"""Trials of a search, and the kinds of candidates that it closes."""

import pytest

from skuq.model_selection._auto.search import Search
from skuq.model_selection._auto.space import Candidate
from skuq.model_selection._auto.trial import Summary, Trial

SUMMARY = Summary(1.0, 0.1, 0.9, 2.0)


def trial(state, **params):
    return Trial(Candidate("base", "native"), state, **params)


@pytest.mark.parametrize("state", ["complete", "pruned", "running", "out of time"])
@pytest.mark.parametrize("summary", [SUMMARY, None])
def test_a_failure_closes_a_kind_unless_another_trial_of_it_has_forecasts(state, summary):
    search = Search(None, None, lambda _: 0.0, False, lambda _: None)
    failed = trial("failed", error=ValueError("fails"))
    search.trials = [trial(state, summary=summary), failed]
    search.close(failed)
    assert search.closed == (set() if summary else {failed.candidate.kind})


def test_a_failure_closes_its_kind_even_with_forecasts_of_its_first_folds():
    search = Search(None, None, lambda _: 0.0, False, lambda _: None)
    search.trials = [trial("failed", summary=SUMMARY), trial("failed", summary=SUMMARY)]
    search.close(search.trials[1])
    assert search.closed == {("base", "native")}
