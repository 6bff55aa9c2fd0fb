"""Cheat sheet of the public names, as a page and as a PDF of one page."""

import textwrap
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from public_names import sections

# Code that shows the use of a module, with data X, y, X_new, y_new and a regressor `forest` of scikit-learn.
# tests/test_cheat_sheet.py runs the code in the order of the sheet.
USES = {
    "skuq.regressors": (
        "model = UncertaintyRegressor(forest)",
        "model.fit(X, y)",
        "model.predict_interval(X_new, coverage=0.9)",
    ),
    "skuq.prediction": ("dist = predict_dist(model, X_new)",),
    "skuq.distributions": (
        "dist.mean(), dist.std(), dist.interval(0.9)",
        "dist.quantile([0.1, 0.5, 0.9]), dist.cdf(200)",
    ),
    "skuq.metrics": (
        "crps_loss(y_new, dist)",
        'cross_val_score(model, X, y, scoring=get_scorer("neg_crps"))',
    ),
    "skuq.recalibration": ("RecalibratedRegressor(model, StdScalingRecalibrator()).fit(X, y)",),
    "skuq.evaluation": ("uncertainty_report(y_new, dist)",),
    "skuq.displays": ("CalibrationCurveDisplay.from_predictions(y_new, dist)",),
    "skuq.model_selection": ("cross_val_predict_dist(model, X, y)",),
    "skuq.monitoring": (
        'total = MetricAccumulator("crps", "picp")',
        "total.update(y_new, dist).result()",
    ),
    "skuq.classifiers": (
        "sets = ConformalClassifier(GaussianNB()).fit(X, y > 0)",
        "sets.predict_set(X_new, 0.9)",
    ),
    "skuq.neural": ("DeepEnsembleRegressor(5).fit(X, y)",),
    "skuq.datasets": ("X, y = load_concrete(return_X_y=True)",),
}
FIRST = ("skuq.regressors", "skuq.prediction", "skuq.distributions", "skuq.recalibration", "skuq.metrics")

INCHES, MARGIN, N_COLUMNS, GAP = (11.69, 8.27), 0.35, 3, 0.2
"""A4 in landscape format."""
ADVANCE, LEADING = 0.603, 1.22
"""Width of a character of DejaVu Sans Mono and height of a line, in units of the font size."""
SIZES = (8.0, 7.5, 7.0, 6.5, 6.0, 5.5)
"""Font sizes from which the largest that fits is chosen."""
COLORS = {"title": "#0b5394", "code": "#7a3e00", "names": "#111111"}


class Block(NamedTuple):
    """Heading, code and names of a section."""

    title: str
    code: tuple[str, ...]
    module: str
    names: tuple[str, ...]


def blocks():
    """Return the blocks in the order of the sheet. The first block of a module has its code."""
    order = {module: k for k, module in enumerate(FIRST)}
    found, seen = [], set()
    for module, title, names in sorted(sections(), key=lambda section: order.get(section.module, len(order))):
        code = () if module in seen else USES.get(module, ())
        seen.add(module)
        heading = f"{module}: {title[0].lower()}{title[1:]}" if title else module
        found.append(Block(heading, code, module, names))
    return found


def page():
    """Return the page as reStructuredText."""
    lines = []
    for title, code, module, names in blocks():
        links = ", ".join(f":obj:`{name} <{module}.{name}>`" for name in names)
        shown = [".. code-block:: python", "", *(f"    {line}" for line in code), ""] if code else []
        lines += [f".. rubric:: {title}", "", *shown, links, ""]
    return "\n".join(lines)


def columns(size):
    """Return the lines of each column, as pairs of style and text, or None if the text does not fit."""
    width = ((INCHES[0] - 2 * MARGIN - (N_COLUMNS - 1) * GAP) / N_COLUMNS) * 72
    n_characters = int(width / (ADVANCE * size))
    n_lines = int((INCHES[1] - 2 * MARGIN - 0.3) * 72 / (LEADING * size))
    filled = [[]]
    for title, code, _, names in blocks():
        lines = [("title", title)]
        lines += [("code", part) for line in code for part in textwrap.wrap(line, n_characters)]
        lines += [("names", line) for line in textwrap.wrap(", ".join(names), n_characters)]
        if len(filled[-1]) + len(lines) > n_lines:
            filled.append([])
        filled[-1] += [*lines, ("names", "")]
    return filled if len(filled) <= N_COLUMNS else None


def draw():
    """Return the figure of the PDF in the largest font that fits."""
    size, filled = next((size, found) for size in SIZES if (found := columns(size)))
    figure = Figure(figsize=INCHES)
    top = INCHES[1] - MARGIN
    figure.text(MARGIN / INCHES[0], top / INCHES[1], "skuq cheat sheet", size=12, weight="bold", va="top")
    step = (INCHES[0] - 2 * MARGIN + GAP) / N_COLUMNS
    for k, lines in enumerate(filled):
        for row, (style, text) in enumerate(lines):
            figure.text(
                (MARGIN + k * step) / INCHES[0],
                (top - 0.3 - row * LEADING * size / 72) / INCHES[1],
                text,
                size=size,
                family="DejaVu Sans Mono",
                weight="bold" if style == "title" else "normal",
                color=COLORS[style],
                va="top",
                parse_math=False,
            )
    return figure


def write_cheat_sheet(app):
    """Write the text of the page and the PDF."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cheat-sheet.inc").write_text(page(), encoding="utf-8")
    draw().savefig(folder / "skuq-cheat-sheet.pdf", metadata={"CreationDate": None})
