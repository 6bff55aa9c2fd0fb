"""The report: the metrics of one or several models with intervals, and what they say in words."""
