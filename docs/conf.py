"""Configuration of the Sphinx documentation; `make docs` builds it with warnings as errors."""

import os
import sys
import tomllib
import urllib.request
from pathlib import Path

import skuq

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
import changelog
import cheat_sheet
import conformal_pictures
import llms
import mathml
import measured
import metric_tables
import no_break
import peer_tables
import pool_pictures
import prose
import public_names
import recalibration_pictures
import same_base_pictures
import site_options

os.environ["MPLBACKEND"] = "Agg"
# Pages show results; on a busy machine dask also logs how its connections close.
os.environ["DASK_LOGGING__DISTRIBUTED"] = "warning"

project = "skuq"
author = "the skuq developers"
copyright = "2026, the skuq developers"
version = release = skuq.__version__

# The addresses of the repository and of the site, without a slash at the end. Links that need an empty
# address are omitted. The address of the repository is also in [project.urls] of pyproject.toml.
repository = ""
site = ""

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "mathml",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx_reredirects",
]
templates_path = ["_templates"]
html_static_path = ["_static", str(mathml.FONTS)]
html_css_files = ["style.css"]
# The tutorial is one page: the index of its gallery would have one link.
exclude_patterns = ["_build", "guides", "tutorials/index.rst", "*/*.ipynb", "*/*/*.ipynb"]
default_role = "obj"  # `crps_loss` in a docstring is a link
html_math_renderer = "mathml"
# A cross-reference to a name of skuq must resolve; references to other packages are not links.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!skuq\b).*")]

# The reference: one page per public name, generated from docs/reference/api.rst.
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc sections state the types in words
numpydoc_show_class_members = False
numpydoc_show_inherited_class_members = False

# Pages of names that moved lead to their present pages, and a removed page to the page with its numbers.
MOVED = tomllib.loads(Path(__file__).with_name("moved_names.toml").read_text(encoding="utf-8"))
redirects = {
    f"reference/generated/{old}": f"{new}.{old.split('.')[-1]}.html"
    for new, names in MOVED.items()
    for old in names
} | {f"reference/generated/{old}": "../results.html" for old in MOVED["results"]}
redirects["replications/ablations"] = "../development/decisions.html"

# Names of other packages are links if their inventories can be read, and plain text without a network.
INVENTORIES = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "scipy": "https://docs.scipy.org/doc/scipy",
    "pandas": "https://pandas.pydata.org/docs",
    "sklearn": "https://scikit-learn.org/stable",
    "matplotlib": "https://matplotlib.org/stable",
}


def reachable(address):
    """Return whether an inventory can be read."""
    try:
        with urllib.request.urlopen(f"{address}/objects.inv", timeout=5):
            return True
    except OSError:
        return False


intersphinx_mapping = {name: (address, None) for name, address in INVENTORIES.items() if reachable(address)}

# The tutorial, the how-to guides and the gallery are scripts. The build runs them, shows their output and
# plots, and fails on a warning or a false claim. A page of the reference ends with the scripts that use its
# name.
SECTIONS = [
    "questions",
    "regressors",
    "conformal",
    "recalibration",
    "model_selection",
    "simulation",
    "displays",
    "neural",
]
sphinx_gallery_conf = {
    "examples_dirs": ["guides/tutorials", "guides/how_to", "../examples"],
    "gallery_dirs": ["tutorials", "how-to", "auto_examples"],
    "filename_pattern": r"/plot_|/guides/",
    "ignore_pattern": r"/studies/",
    "subsection_order": [f"../examples/{section}" for section in SECTIONS],
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "reference/generated/backreferences",
    "doc_module": ("skuq",),
    "reference_url": {"skuq": None},
    "ignore_repr_types": r"matplotlib\.|skuq\.displays\.",
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib", "claims.check_claims"),
    "reset_modules": ("matplotlib", "claims.warnings_are_errors"),
    "reset_modules_order": "both",
    "parallel": True,  # The number of processes is the option -j of sphinx-build.
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "skuq"
html_favicon = "_static/icon.svg"
html_show_sourcelink = False
# These sections have one page, so they need no navigation.
html_sidebars = {page: [] for page in ("index", "install", "tutorials/*", "changelog")}
toc_object_entries_show_parents = "hide"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    **site_options.theme_options(repository, site, version),
}
html_context = {"default_mode": "auto", **site_options.context(repository)}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app):
    """Connect the tables and plots to the build."""
    app.add_config_value("site", "", "env")
    measured.setup(app)
    app.add_transform(no_break.NoBreakTransform)
    app.add_transform(prose.LanguageTransform)
    app.connect("missing-reference", public_names.link_result)
    app.connect("build-finished", site_options.write_versions)
    app.connect("build-finished", llms.write_index)
    app.connect("builder-inited", changelog.write_changelog)
    app.connect("builder-inited", cheat_sheet.write_cheat_sheet)
    app.connect("builder-inited", metric_tables.write_tables)
    app.connect("builder-inited", peer_tables.write_tables)
    app.connect("builder-inited", recalibration_pictures.write_pictures)
    app.connect("builder-inited", conformal_pictures.write_pictures)
    app.connect("builder-inited", pool_pictures.write_pictures)
    app.connect("builder-inited", same_base_pictures.write_pictures)
