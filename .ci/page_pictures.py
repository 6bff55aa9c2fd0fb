"""Write pages of `HTMLReport` and pictures of them in Chromium, to be looked at before a change is merged.

``python .ci/page_pictures.py FOLDER [PART]`` writes one page for each case: one and five forecasts, 50 and
100 000 rows, long names, classes, and forecasts with each kind of fault. Each page is photographed at widths
of 1400 and 400 pixels, light and dark, and as it is printed in gray, in pieces of 2400 pixels. With PART,
only cases with this text in their name are made. It needs the extra ``test`` and Debian's package
chromium-headless-shell or chromium, and takes about two minutes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pictures import chosen
from playwright.sync_api import sync_playwright

from skuq.distributions import Empirical, Normal, Quantiles
from skuq.report import HTMLReport

FEW = {"n_resamples": 50, "n_draws": 50, "created": "2024-01-31"}
LONG = "Gradient boosting with quantile losses at seventeen levels, trained on the years 1994 to 2019"
HEIGHT, A4 = 2400, 794
"""Height of a picture, and width of a page of A4 at 96 dots per inch."""

LONG_GROUP = "North-Rhine-Westphalia, municipal utilities"
VIEWS = [(width, scheme) for width in (1400, 400) for scheme in ("light", "dark")]


def rows(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return observed values, means and standard deviations of calibrated forecasts."""
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=n), rng.uniform(0.5, 2.0, size=n)
    return loc + scale * rng.normal(size=n), loc, scale


def five(n: int) -> HTMLReport:
    """Report five forecasts, two of them with long names."""
    y, loc, scale = rows(n)
    levels = np.linspace(0.05, 0.95, 7)
    models = {
        "right": Normal(loc, scale),
        "biased": Normal(loc + 0.6 * scale, scale),
        "too narrow": Normal(loc, 0.6 * scale),
        LONG: Quantiles(levels, Normal(loc, 1.6 * scale).quantile(levels)),
        "a-name-without-any-space-that-a-file-may-have-given-to-a-model_v2.1_final": Normal(loc, scale[::-1]),
    }
    groups = pd.Series(np.where(loc > 0.8, LONG_GROUP, "South"), name="region")
    time = pd.Series(pd.date_range("2024-01-01", periods=n, freq="h"), name="hour of the observation")
    return HTMLReport.from_predictions(
        y, models, groups=groups, time=time, title=f"Five forecasts, {n} rows", **FEW
    )


def one(n: int, bias: float = 0.0, width: float = 1.0) -> HTMLReport:
    """Report a forecast with a bias in standard deviations, or with a wrong width."""
    y, loc, scale = rows(n)
    return HTMLReport.from_predictions(
        y, Normal(loc + bias * scale, width * scale), title="One forecast", **FEW
    )


def members() -> HTMLReport:
    """Report an ensemble of small numbers."""
    y, loc, scale = rows(1000)
    noise = np.random.default_rng(1).normal(size=(1000, 20))
    forecast = Empirical(1e-6 * (loc[:, np.newaxis] + 0.7 * scale[:, np.newaxis] * noise))
    return HTMLReport.from_predictions(1e-6 * y, forecast, title="Members", **FEW)


def classes(n: int) -> HTMLReport:
    """Report two classifiers."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=n)
    y = (rng.random((n, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    sharp = proba**2 / (proba**2).sum(axis=1, keepdims=True)
    models = {"right": proba, "too certain": sharp}
    region = pd.Series(np.repeat(["north", "south"], n // 2), name="region")
    return HTMLReport.from_predictions(y, models, labels=[0, 1, 2], groups=region, title="Classes", **FEW)


CASES: dict[str, Callable[[], HTMLReport]] = {
    "one_50": lambda: one(50),
    "one_100000": lambda: one(100_000),
    "one_biased": lambda: one(1000, bias=-0.5),
    "one_narrow": lambda: one(1000, width=0.6),
    "one_wide": lambda: one(1000, width=1.7),
    "five_50": lambda: five(50),
    "five_100000": lambda: five(100_000),
    "members": members,
    "classes": lambda: classes(2000),
}


def photograph(browser: Any, page: Path, name: str, width: int, **media: str) -> None:
    """Save pictures of the whole page."""
    tab = browser.new_page(viewport={"width": width, "height": HEIGHT})
    tab.emulate_media(**media)
    tab.goto(page.as_uri())
    if media.get("media") == "print":
        tab.add_style_tag(content="html { filter: grayscale(1); }")
    total = tab.evaluate("document.documentElement.scrollHeight")
    for number, top in enumerate(range(0, total, HEIGHT)):
        clip = {"x": 0, "y": top, "width": width, "height": min(HEIGHT, total - top)}
        path = page.with_name(f"{page.stem}_{name}_{number}.png")
        tab.screenshot(path=path, full_page=True, clip=clip)
    tab.close()


def main() -> None:
    """Write all pages and pictures."""
    executable = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with sync_playwright() as engine:
        # Chromium's sandbox does not work for root in a container.
        browser = engine.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for path, make in chosen(CASES, __doc__):
            page = make().save(path.with_suffix(".html"))
            for width, scheme in VIEWS:
                photograph(browser, page, f"{width}_{scheme}", width, color_scheme=scheme)
            photograph(browser, page, "print", A4, media="print")
            print(page)
        browser.close()


if __name__ == "__main__":
    main()
