"""Internal interface of the evaluation: the parts of a report that the accumulator and the HTML page use."""

from skuq.evaluation._report.records import assemble, record
from skuq.evaluation._report.table import won_by
from skuq.evaluation._report.wording import (
    CERTAIN,
    PERHAPS,
    Headline,
    RowFormat,
    bias_words,
    class_headline_words,
    headline_words,
)
from skuq.evaluation._significance import interval_of_draws

__all__ = [
    "CERTAIN",
    "PERHAPS",
    "Headline",
    "RowFormat",
    "assemble",
    "bias_words",
    "class_headline_words",
    "headline_words",
    "interval_of_draws",
    "record",
    "won_by",
]
