"""The report as one HTML page: what was measured, the findings, the figures and the origin of the numbers."""
