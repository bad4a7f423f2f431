"""A flow's folder in parts that are small enough to travel, and ``join``, which makes files of them again."""

from __future__ import annotations

import argparse
import io
import shutil
import tarfile
from pathlib import Path

from hardpan import flows

PART = 16 * 2**20 - 4096


def bundle(out: Path, name: str) -> None:
    """Put OUT/NAME into NAME.tar.0, NAME.tar.1, ... beside it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(out / name, arcname=name)
    content = buffer.getvalue()
    for number, start in enumerate(range(0, len(content), PART)):
        (out / f"{name}.tar.{number}").write_bytes(content[start : start + PART])
    shutil.rmtree(out / name)


def join(given: argparse.Namespace) -> None:
    """Unpack every bundle of a folder, and open its flow to be sure."""
    folder = Path(given.data)
    for name in sorted({path.name.partition(".tar.")[0] for path in folder.glob("*.tar.*")}):
        parts = sorted(folder.glob(f"{name}.tar.*"), key=lambda path: int(path.suffix[1:]))
        with tarfile.open(fileobj=io.BytesIO(b"".join(path.read_bytes() for path in parts))) as archive:
            archive.extractall(given.out, filter="data")
        print(given.out / name, flows.load(given.out / name).bayes_error())
