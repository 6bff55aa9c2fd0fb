"""The report of one or several models, with metrics, confidence intervals and explanations."""
