"""What is kept on disk from one run to the next: compiled kernels, and choices that were timed."""

import os
import tempfile
from pathlib import Path

from platformdirs import user_cache_dir


def folder() -> Path:
    """Where it is kept: MINIGRAD_CACHE, or the user's cache."""
    return Path(os.environ.get("MINIGRAD_CACHE") or user_cache_dir("minigrad"))


def keep(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, whoever else writes the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(content)
    os.replace(part.name, path)
