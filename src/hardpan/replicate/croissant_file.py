"""The assembled set for machines: Croissant 1.0, JSON-LD with the vocabularies of schema.org and MLCommons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hardpan.replicate.datasheet import Facts

CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
# Licences that are known by these names; anything else is given as a name and no address.
_SPDX = [
    "CC0-1.0",
    "CC-BY-4.0",
    "CC-BY-SA-4.0",
    "CC-BY-NC-4.0",
    "CC-BY-ND-4.0",
    "CC-BY-NC-SA-4.0",
    "CC-BY-NC-ND-4.0",
    "CC-BY-3.0",
    "MIT",
    "Apache-2.0",
    "BSD-3-Clause",
    "ODbL-1.0",
    "ODC-By-1.0",
    "PDDL-1.0",
]
_FIELDS = {
    "id": ("sc:Text", "The image: the first 16 digits of a hash of its pixels."),
    "class": ("sc:Text", "Its class."),
    "subclass": ("sc:Text", "Its keyword inside the class, where there is one."),
    "frequency": ("sc:Float", "Its selection frequency: the share of annotators who selected it for its class."),
    "votes": ("sc:Integer", "How many annotators saw it."),
    "fill": ("sc:Text", "Why it stands in a place that is not its own, where it does."),
    "source": ("sc:Text", "Where it comes from."),
    "date": ("sc:Text", "Its date, where it is known."),
    "pixels_sha256": ("sc:Text", "Hash of its pixels in the size of the set."),
}
_TYPES = {"npz": "application/x-npz", "csv": "text/csv", "md": "text/markdown", "json": "application/json"}


def croissant(facts: Facts, files: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, Any]:
    """The set as Croissant 1.0.

    Args:
        facts: what the datasheet says.
        files: path inside the set to sha256.
        sizes: path inside the set to bytes.
    """
    images = any(name.startswith("images/") for name in files)
    distribution = [_file(name, files[name], sizes[name]) for name in files if not name.startswith("images/")]
    if images:
        distribution.append(_image_set())
    author = facts.author or "not stated"
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": facts.name,
        "description": (
            f"A new test set in the manner of {facts.original}: {len(facts.sample.images)} images, strategy "
            f"{facts.sample.strategy}, average selection frequency {facts.sample.average_frequency.value:.3f}."
        ),
        "conformsTo": CONFORMS_TO,
        "url": "./",  # the folder that this file lies in, wherever it is put
        "version": "1.0.0",
        "datePublished": facts.date,
        "dateCreated": facts.date,
        "isLiveDataset": False,
        "license": _license(facts.license),
        "creator": {"@type": "sc:Organization", "name": author},
        "citeAs": f"{author}: {facts.name}, {facts.date[:4]}",
        "keywords": ["test set", "image classification", "replication", *facts.per_class][:50],
        "distribution": distribution,
        "recordSet": [_examples(), *([_pictures()] if images else [])],
    }


def _file(name: str, digest: str, size: int) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{size} B",
        "encodingFormat": _TYPES.get(name.rpartition(".")[2], "application/octet-stream"),
        "sha256": digest,
    }


def _image_set() -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": "images",
        "name": "images",
        "description": "The images as PNG files, a folder a class; a file is named by its id.",
        "encodingFormat": "image/png",
        "includes": "images/*/*.png",
    }


def _examples() -> dict[str, Any]:
    """A record an image, from the columns of index.csv."""
    return {
        "@type": "cr:RecordSet",
        "@id": "examples",
        "name": "examples",
        "description": "What is known of every image.",
        "key": {"@id": "examples/id"},
        "field": [
            _field(
                f"examples/{name}",
                told,
                kind,
                {"fileObject": {"@id": "index.csv"}, "extract": {"column": name}},
            )
            for name, (kind, told) in _FIELDS.items()
        ],
    }


def _pictures() -> dict[str, Any]:
    """A record a PNG file: its pixels, and the id that joins it to what is known of it."""
    files = {"fileSet": {"@id": "images"}}
    by_name = files | {"extract": {"fileProperty": "filename"}, "transform": {"regex": r"^(.+)\.png$"}}
    pixels = files | {"extract": {"fileProperty": "content"}}
    link = {"references": {"field": {"@id": "examples/id"}}}
    return {
        "@type": "cr:RecordSet",
        "@id": "pictures",
        "name": "pictures",
        "description": "The pixels of every image.",
        "key": {"@id": "pictures/id"},
        "field": [
            _field("pictures/id", "The image, as in the record set examples.", "sc:Text", by_name) | link,
            _field("pictures/image", "Its pixels.", "sc:ImageObject", pixels),
        ],
    }


def _field(name: str, told: str, kind: str, source: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": name,
        "name": name,
        "description": told,
        "dataType": kind,
        "source": dict(source),
    }


def _license(given: str) -> Any:
    """The licence's address where it is one or is known by its SPDX name, else a work with a name only.

    Example:
        >>> _license("CC-BY-4.0"), _license("ours")["name"]
        ('https://spdx.org/licenses/CC-BY-4.0.html', 'ours')
    """
    if given.startswith(("https://", "http://")):
        return given
    if given in _SPDX:
        return f"https://spdx.org/licenses/{given}.html"
    return {"@type": "sc:CreativeWork", "name": given or "not stated"}


_CR_TERMS = [
    "citeAs",
    "column",
    "extract",
    "field",
    "fileObject",
    "fileProperty",
    "fileSet",
    "format",
    "includes",
    "isLiveDataset",
    "jsonPath",
    "key",
    "md5",
    "parentField",
    "path",
    "recordSet",
    "references",
    "regex",
    "repeated",
    "replace",
    "separator",
    "source",
    "subField",
    "transform",
]
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _CR_TERMS},
}
