"""Private parts of conformal prediction: scores, quantiles of scores, intervals and sets."""
