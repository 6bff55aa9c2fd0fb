"""Replace the tags of actions in the workflows by the hashes of their commits: `make pin-actions`.

`git ls-remote` reads the hashes from the repositories of the actions. The tag stays in a comment, from which
dependabot and the next call read it.
"""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

WORKFLOWS = Path(__file__).resolve().parent.parent / ".github" / "workflows"
USES = re.compile(r"(uses: )([\w.-]+/[\w.-]+)((?:/[\w.-]+)*)@([\w./-]+)(?: # (\S+))?")


@cache
def commit_of(repository: str, tag: str) -> str:
    """Return the hash of the commit that a tag or a branch points to."""
    address = f"https://github.com/{repository}"
    command = ["git", "ls-remote", address, f"refs/tags/{tag}", f"refs/tags/{tag}^{{}}", f"refs/heads/{tag}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode or not result.stdout:
        raise SystemExit(f"{repository}@{tag} was not found: {result.stderr.strip() or 'no such tag'}")
    found = dict(reversed(line.split("\t")) for line in result.stdout.splitlines())
    of_annotated_tag = found.get(f"refs/tags/{tag}^{{}}")
    return of_annotated_tag or next(iter(found.values()))


def pinned(text: str) -> str:
    """Return the text of a workflow with a hash for each action."""

    def replace(match: re.Match[str]) -> str:
        start, repository, path, version, comment = match.groups()
        tag = comment or version
        return f"{start}{repository}{path}@{commit_of(repository, tag)} # {tag}"

    return USES.sub(replace, text)


def main() -> None:
    """Pin the actions of all workflows, or none if a tag is not found."""
    texts = {path: pinned(path.read_text(encoding="utf-8")) for path in sorted(WORKFLOWS.glob("*.yml"))}
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    print(f"{sum(len(USES.findall(text)) for text in texts.values())} actions are pinned.", file=sys.stderr)


if __name__ == "__main__":
    main()
