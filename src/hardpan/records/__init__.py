"""The small frozen records that every part of hardpan returns, and their JSON form.

A record is a frozen dataclass registered with :func:`record`. Its JSON carries ``kind`` (the class name),
``schema`` and the hardpan version; NaN and infinities become null; arrays of more than 1,000 numbers go into an
npz file beside the JSON, named by the sha256 of their content (:func:`save`, :func:`load`).
"""

from hardpan.records.files import file_hash, write_bytes, write_text
from hardpan.records.progress import Progress
from hardpan.records.registry import record
from hardpan.records.serial import INLINE_NUMBERS, SCHEMA, array_hash, dumps, from_json, load, save, to_json
from hardpan.records.types import (
    Chart,
    Dataset,
    Estimate,
    Interval,
    Provenance,
    Section,
    Split,
    Table,
    Tile,
)
from hardpan.records.versions import versions_of

__all__ = [
    "INLINE_NUMBERS",
    "SCHEMA",
    "Chart",
    "Dataset",
    "Estimate",
    "Interval",
    "Progress",
    "Provenance",
    "Section",
    "Split",
    "Table",
    "Tile",
    "array_hash",
    "dumps",
    "file_hash",
    "from_json",
    "load",
    "record",
    "save",
    "to_json",
    "versions_of",
    "write_bytes",
    "write_text",
]
