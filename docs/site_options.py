"""Options that need the address of the repository or of the site."""

import json
from pathlib import Path
from urllib.parse import urlsplit

# Released versions before the current one, the newest first, whose documentation is at <site>/<version>/.
RELEASED = ()


def theme_options(repository, site, version):
    """Return options of pydata_sphinx_theme, without options whose address is empty."""
    options = {}
    if repository:
        options |= {"github_url": repository, "use_edit_page_button": True}
    if site:
        switcher = {"json_url": f"{site}/_static/switcher.json", "version_match": version}
        # This build writes the file, so it does not exist before the first build.
        options["check_switcher"] = False
        navbar_end = ["version-switcher", "theme-switcher", "navbar-icon-links"]
        options |= {"switcher": switcher, "navbar_end": navbar_end}
    return options


def context(repository):
    """Return the context of the button "Edit this page"."""
    if not repository:
        return {}
    owner, name = urlsplit(repository).path.strip("/").split("/")
    return {"github_user": owner, "github_repo": name, "github_version": "main", "doc_path": "docs"}


def versions(site, version, released=RELEASED):
    """Return the entries of the version switcher: the current version at the root, then the earlier ones."""
    current = {"version": version, "url": f"{site}/", "preferred": True}
    return [current, *({"version": old, "url": f"{site}/{old}/"} for old in released)]


def write_versions(app, exception):
    """Write the file that the version switcher reads into the built site, if it has an address."""
    site = app.config.site
    if exception is None and site and app.builder.format == "html":
        text = json.dumps(versions(site, app.config.version), indent=2)
        Path(app.outdir, "_static", "switcher.json").write_text(text + "\n", encoding="utf-8")
