"""Configuration of the Sphinx documentation; `make docs` builds it with warnings as errors."""

import os
import sys
import warnings
from pathlib import Path

import skuq
from skuq.metrics._spec import all_specs

sys.path.insert(0, str(Path(__file__).parent))
import conformal_pictures
import metric_tables
import recalibration_pictures

os.environ["MPLBACKEND"] = "Agg"

project = "skuq"
author = "the skuq developers"
copyright = "2026, the skuq developers"
version = release = skuq.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "auto_examples/*.ipynb"]
default_role = "code"
# A cross-reference to a name of skuq must resolve; those to other packages are not links.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!skuq\b).*")]

# The reference: one page per public name, generated from docs/reference/api.rst.
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc sections state the types in words
numpydoc_show_class_members = False
numpydoc_show_inherited_class_members = False

# The gallery runs every examples/**/plot_*.py, and a warning from an example fails the build. A page of the
# reference ends with the examples that use its name.
SECTIONS = ["questions", "regressors", "conformal", "recalibration", "model_selection", "displays", "neural"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"/papers/",
    "subsection_order": [f"../examples/{section}" for section in SECTIONS],
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "reference/generated/backreferences",
    "doc_module": ("skuq",),
    "reference_url": {"skuq": None},
    "capture_repr": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
}
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*", category=UserWarning)

html_theme = "pydata_sphinx_theme"
html_title = "skuq"
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def write_metrics_table(app):
    """Write the table of all metrics from their records, for docs/explanation/which-metric.rst."""
    better = {"lower": "lower", "higher": "higher", None: "neither"}
    units = {0: "none", 1: "y", "log": "log y"}
    lines = [".. csv-table::", "    :header-rows: 1", "    :delim: |", ""]
    lines.append("    Metric | Scorer | Units | Better | Proper")
    for spec in all_specs().values():
        cells = [
            f":func:`~skuq.metrics.{spec.function.__name__}`",
            "" if spec.required_options else f"``{spec.scorer_name}``",
            units.get(spec.units, f"y^{spec.units}"),
            better[spec.direction],
            "yes" if spec.proper else "no",
        ]
        lines.append("    " + " | ".join(cells))
    path = Path(app.srcdir) / "reference" / "generated" / "metrics.inc"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def setup(app):
    """Connect the tables and plots to the build."""
    app.connect("builder-inited", write_metrics_table)
    app.connect("builder-inited", metric_tables.write_tables)
    app.connect("builder-inited", recalibration_pictures.write_pictures)
    app.connect("builder-inited", conformal_pictures.write_pictures)
