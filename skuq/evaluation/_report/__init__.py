"""The report: metrics of one or several models, with confidence intervals and explanations."""
