"""Files that people ask for: written whole, in a folder that is made where it is missing, or refused plainly."""

from __future__ import annotations

import os
from pathlib import Path

from hardpan import files
from hardpan.errors import InputError


def write_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file in one step, its folder too; what cannot be written is one sentence.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_file(folder + "/new/votes.csv", "image_id,class")
        ...     Path(folder, "new", "votes.csv").read_text()
        'image_id,class'
    """
    target = Path(path)
    try:
        if target.is_dir():
            raise InputError(f"{target}: is a folder; give the name of a file in it")
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(target, content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise InputError(
            f"{target}: cannot be written ({error.strerror or error}); make room or give another place"
        ) from error
