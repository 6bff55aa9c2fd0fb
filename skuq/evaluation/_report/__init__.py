"""The report: the metrics of one or several models with intervals and their meaning in words."""
