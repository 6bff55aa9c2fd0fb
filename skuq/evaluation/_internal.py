"""Internal interface of the evaluation: the parts of a report that the accumulator uses."""

from skuq.evaluation._report.records import assemble, record
from skuq.evaluation._report.wording import headline_words
from skuq.evaluation._significance import interval_of_draws

__all__ = ["assemble", "headline_words", "interval_of_draws", "record"]
