"""Pages of the reference that moved when a public name moved or was renamed."""

MOVED = {
    "skuq.metrics": {
        "skuq.evaluation": (
            "BootstrapInterval",
            "ConditionalCoverageEstimate",
            "PermutationTest",
            "UncertaintyReport",
            "bootstrap_interval",
            "conditional_coverage_estimate",
            "paired_permutation_test",
            "uncertainty_report",
        ),
        "skuq.monitoring": ("CoverageMonitor", "MetricAccumulator", "calibration_drift"),
    },
    "skuq.model_selection": {
        "skuq.evaluation": ("Tilt", "shift_curve"),
        "skuq.regressors": ("default_estimators",),
    },
}
"""Old package, new package, names."""

RENAMED = {
    "skuq.metrics.interval_bandwidth": "skuq.metrics.mean_interval_half_width",
    "skuq.simulation.EstimatedWorld": "skuq.simulation.EstimatedProcess",
    "skuq.simulation.KnownWorld": "skuq.simulation.KnownProcess",
    "skuq.simulation.SplitWorld": "skuq.simulation.SplitData",
    "skuq.simulation.make_known_world": "skuq.simulation.make_known_process",
}


def moved_names():
    """Return the new qualified name for each old one."""
    moved = {
        f"{old}.{name}": f"{new}.{name}"
        for old, packages in MOVED.items()
        for new, names in packages.items()
        for name in names
    }
    return moved | RENAMED


def redirects():
    """Return the value of ``redirects`` of sphinx-reredirects: relative addresses by old page."""
    return {f"reference/generated/{old}": f"{new}.html" for old, new in moved_names().items()}
