"""Files that are complete or absent."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def write_together(texts: Mapping[Path, str]) -> None:
    """Write files under other names, and rename them after all of them are complete."""
    written: dict[Path, Path] = {}
    try:
        for path, text in texts.items():
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            written[path] = Path(name)
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            written[path].chmod(0o666 & ~_umask())
        for path, partial in written.items():
            partial.replace(path)
    finally:
        for partial in written.values():
            partial.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
