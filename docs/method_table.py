"""Table of the rules by which `UncertaintyRegressor` chooses a method, for the guide."""

from pathlib import Path

from metric_tables import table

from skuq.regressors._method_rules import METHOD_RULES

COLUMNS = ("Estimator", "Method", "Fits", "Evidence")


def method_rules():
    """Return the table of the rules in their order."""
    rows = [(rule.estimators, rule.method, rule.fits, rule.evidence) for rule in METHOD_RULES]
    return "\n".join(table(COLUMNS, rows))


def write_table(app):
    """Write the table that the guide includes."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "method-rules.inc").write_text(method_rules(), encoding="utf-8")
