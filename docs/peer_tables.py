"""Tables of the features of related packages, from docs/peers.toml."""

import tomllib
from pathlib import Path

from metric_tables import table

PACKAGES = {
    "calibration": ("MAPIE", "crepes", "netcal", "Uncertainty Toolbox", "scoringrules", "scikit-learn"),
    "models": ("skpro", "NGBoost", "XGBoostLSS", "quantile-forest", "TabPFN", "TabICL"),
}


def features():
    """Return the evidence of each package by feature, and the features by section."""
    return tomllib.loads(Path(__file__).with_name("peers.toml").read_text(encoding="utf-8"))


def mark(evidence):
    """Return the mark of a cell."""
    if not evidence:
        return ""
    return "(✓)" if str(evidence).startswith("~") else "✓"


def feature_table(packages):
    """Return the table of skuq and some packages."""
    columns = ("skuq", *packages)
    rows = []
    for section, by_feature in features().items():
        rows.append((f"**{section}**", *("" for _ in columns)))
        for feature, cells in by_feature.items():
            rows.append((feature, *(mark(cells.get(name)) for name in columns)))
    return "\n".join(table(("", *columns), rows, style="features"))


def write_tables(app):
    """Write the tables that the page of related packages includes."""
    folder = Path(app.srcdir) / "explanation" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    for name, packages in PACKAGES.items():
        (folder / f"peers-{name}.inc").write_text(feature_table(packages), encoding="utf-8")
