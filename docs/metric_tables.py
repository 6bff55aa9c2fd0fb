"""Tables of the metrics, generated from their records when the documentation is built."""

from pathlib import Path

import numpy as np

from skuq.distributions import Normal
from skuq.metrics._spec import all_specs

# Heading of a family, page that explains the family, modules of skuq.metrics with its functions.
FAMILIES = (
    (
        "Proper scores and skill scores",
        "proper-scores",
        ("_proper", "_quantile_scores", "_weighted_scores", "_skill"),
    ),
    ("Parts of the CRPS", "score-decomposition", ("_crps_parts",)),
    (
        "Average calibration",
        "average-calibration",
        ("_average_calibration", "_calibration_scores"),
    ),
    (
        "Group calibration",
        "group-calibration",
        (
            "_adversarial",
            "_group_calibration",
            "_quantile_calibration",
            "_conditional_coverage",
            "_worst_slab",
        ),
    ),
    ("Intervals", "prediction-intervals", ("_intervals", "_interval_width")),
    ("Sharpness", "sharpness", ("_sharpness",)),
    ("Classes", "classes", ("_class_scores", "_prediction_sets", "_expected_calibration")),
    ("Uncertainty characteristics curve", "uncertainty-characteristics", ("_ucc_scores",)),
    ("Several targets", "several-targets", ("_scores", "_moment_scores")),
)
COLUMNS = ("Metric", "Scorer", "Needs", "Units", "Better", "Best", "Proper")
OVERVIEW = ("Metric", "Scorer", "Units", "Better", "Proper")
OPTIONS = ("header-rows: 1", "widths: auto", "delim: |")
SIZES = (100, 1000, 10_000)
DRAWS = 200


def family_of(spec):
    """Return the heading of a metric's family."""
    module = spec.compute.__module__.rpartition(".")[2]
    for heading, _, modules in FAMILIES:
        if module in modules:
            return heading
    raise LookupError(f"docs/metric_tables.py: add `{module}` of `{spec.abbreviation}` to FAMILIES.")


def room_of(spec):
    """Return the package that exports a metric."""
    return ".".join(spec.compute.__module__.split(".")[:2])


def scorer_of(spec):
    """Return the name of a scorer, or the call that creates the scorer."""
    if spec.ready_made:
        return f"``{spec.scorer_name}``" if spec.direction else f'``scorers("{spec.scorer_name}")``'
    option = next(iter((*spec.required_options, *spec.one_of, *spec.any_of)))
    return f'``make_scorer("{spec.abbreviation}", {option}=...)``'


def cells_of(spec):
    """Return the row of a metric."""
    best = spec.optimum
    if best is None:
        best = "none"
    elif not isinstance(best, str):
        best = f"{best:g}" if np.isfinite(best) else "unbounded"
    return (
        f":func:`~{room_of(spec)}.{spec.function.__name__}`",
        scorer_of(spec),
        f"{spec.needs}, X" if spec.needs_X else spec.needs,
        {0: "none", 1: "y", "log": "log y"}.get(spec.units, f"y^{spec.units}"),
        spec.direction or "neither",
        best,
        "yes" if spec.proper else "no",
    )


def table(columns, rows, style="metrics"):
    """Return a table as lines of reStructuredText, with a class of the style sheet."""
    head = [".. csv-table::", *(f"    :{option}" for option in (*OPTIONS, f"class: {style}")), ""]
    return [*head, *("    " + " | ".join(row) for row in (columns, *rows)), ""]


def metric_tables():
    """Return the tables of all metrics by family."""
    by_family = {heading: [] for heading, _, _ in FAMILIES}
    for spec in all_specs(rooms=True).values():
        by_family[family_of(spec)].append(spec)
    lines = []
    for heading, page, _ in FAMILIES:
        lines += [heading, "-" * len(heading), "", f"Explained in :doc:`/explanation/{page}`.", ""]
        lines += table(COLUMNS, [cells_of(spec) for spec in by_family[heading]])
    return "\n".join(lines)


def sources():
    """Return the table of the papers that define the metrics."""
    rows = [
        (f":func:`~{room_of(spec)}.{spec.function.__name__}`", spec.source)
        for spec in all_specs(rooms=True).values()
    ]
    return "\n".join(table(("Metric", "Source"), rows))


def overview():
    """Return one table of all metrics, with some of the columns."""
    kept = [COLUMNS.index(column) for column in OVERVIEW]
    rows = [cells_of(spec) for spec in all_specs(rooms=True).values()]
    return "\n".join(table(OVERVIEW, [[row[k] for k in kept] for row in rows]))


def simulate(specs, n, rng):
    """Return mean and 95 % quantile of each metric for calibrated forecasts of n rows."""
    scale = rng.uniform(0.5, 1.5, size=n)
    dist = Normal(np.zeros(n), scale)
    targets = [scale * rng.standard_normal(n) for _ in range(DRAWS)]
    values = {spec.abbreviation: [spec.compute(y, dist) for y in targets] for spec in specs}
    return {name: (np.mean(each), np.quantile(each, 0.95)) for name, each in values.items()}


def null_values():
    """Return the table of null values by number of rows."""
    specs = [
        spec
        for spec in all_specs(rooms=True).values()
        if spec.small_sample and spec.ready_made and not spec.needs_X and spec.units == 0
        if not spec.of_classes  # Their values depend on the number of classes.
    ]
    rng = np.random.default_rng(0)
    by_size = [simulate(specs, n, rng) for n in SIZES]
    rows = []
    for spec in specs:
        pairs = [values[spec.abbreviation] for values in by_size]
        cells = [f"{mean:.2g} ({high:.2g})" for mean, high in pairs]
        rows.append((f":func:`~{room_of(spec)}.{spec.function.__name__}`", *cells))
    return "\n".join(table(("Metric", *(f"n = {n}" for n in SIZES)), rows))


def write_tables(app):
    """Write the tables that the pages on metrics include."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.inc").write_text(overview(), encoding="utf-8")
    (folder / "metric-tables.inc").write_text(metric_tables(), encoding="utf-8")
    (folder / "sources.inc").write_text(sources(), encoding="utf-8")
    (folder / "null-values.inc").write_text(null_values(), encoding="utf-8")
