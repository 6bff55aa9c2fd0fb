"""Options of the theme that need the address of the repository or of the site; conf.py uses them."""

from urllib.parse import urlsplit


def theme_options(repository, site, version):
    """Return options of pydata_sphinx_theme: those whose address is empty are left out."""
    options = {}
    if repository:
        options |= {"github_url": repository, "use_edit_page_button": True}
    if site:
        switcher = {"json_url": f"{site}/_static/switcher.json", "version_match": version}
        navbar_end = ["version-switcher", "theme-switcher", "navbar-icon-links"]
        options |= {"switcher": switcher, "navbar_end": navbar_end}
    return options


def context(repository):
    """Return what the button "Edit this page" needs."""
    if not repository:
        return {}
    owner, name = urlsplit(repository).path.strip("/").split("/")
    return {"github_user": owner, "github_repo": name, "github_version": "main", "doc_path": "docs"}
