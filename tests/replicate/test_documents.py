"""The Croissant description against what version 1.0 of the published vocabulary requires, as listed here."""

from __future__ import annotations

import csv
import json
import re
from fnmatch import fnmatch

import pytest

from hardpan.files import file_hash
from hardpan.replicate import simulate

# What the specification says must be there, by type of node.
REQUIRED = {
    "sc:Dataset": {"@context", "conformsTo", "name", "description", "license", "url", "creator", "datePublished"},
    "cr:FileObject": {"@id", "name", "contentUrl", "contentSize", "encodingFormat", "sha256"},
    "cr:FileSet": {"@id", "name", "encodingFormat", "includes"},
    "cr:RecordSet": {"@id", "name", "field"},
    "cr:Field": {"@id", "name", "dataType", "source"},
}
DATA_TYPES = {"sc:Text", "sc:Float", "sc:Integer", "sc:Boolean", "sc:Date", "sc:URL", "sc:ImageObject"}
FILE_PROPERTIES = {"fullpath", "filename", "content", "lines", "lineNumbers"}
SCHEMA_ORG = [
    "name",
    "description",
    "license",
    "url",
    "creator",
    "datePublished",
    "dateCreated",
    "version",
    "keywords",
    "distribution",
    "contentUrl",
    "contentSize",
    "encodingFormat",
    "sha256",
]


@pytest.fixture
def described(make_project):
    """The folder of an assembled set, and its description."""
    project = make_project(each=6, workers_per_image=1)
    simulate.simulate_demo_annotation(project, 2)
    project.sample(strategy="top", per_class=2, min_votes=0)
    project.find_duplicates(k=1)
    project.assemble(author="The Institute", license_="CC-BY-4.0", unreviewed_ok=True)
    folder = project.root / "set"
    return folder, json.loads((folder / "croissant.json").read_text())


def nodes(value):
    """Every object of a document."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from nodes(item)
    elif isinstance(value, list):
        for item in value:
            yield from nodes(item)


def test_everything_required_is_there_and_has_a_meaning(described):
    _, document = described
    context = document["@context"]
    assert context["@vocab"] == "https://schema.org/"
    assert context["cr"] == "http://mlcommons.org/croissant/"
    assert document["conformsTo"] == "http://mlcommons.org/croissant/1.0"
    assert document["license"] == {"@type": "sc:CreativeWork", "name": "CC-BY-4.0"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", document["datePublished"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", document["version"])
    known = set(context) | set(SCHEMA_ORG)
    body = {key: value for key, value in document.items() if key != "@context"}
    typed = [node for node in nodes(document) if node.get("@type") in REQUIRED]
    assert {node["@type"] for node in typed} == set(REQUIRED)
    for node in typed:
        assert REQUIRED[node["@type"]] <= set(node), node["@type"]
        assert all(node[key] not in ("", None, [], {}) for key in REQUIRED[node["@type"]])
    for node in nodes(body):
        assert {key for key in node if not key.startswith("@")} <= known


def test_references_lead_somewhere_and_files_are_as_described(described):
    folder, document = described
    typed = [node for node in nodes(document) if node.get("@type", "").startswith("cr:")]
    ids = [node["@id"] for node in typed]
    assert len(set(ids)) == len(ids)
    for node in nodes({key: value for key, value in document.items() if key != "@context"}):
        if set(node) == {"@id"}:
            assert node["@id"] in ids
    paths = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    covered = {"croissant.json", "lineage.json"}
    for item in document["distribution"]:
        if item["@type"] == "cr:FileObject":
            place = folder / item["contentUrl"]
            assert file_hash(place) == item["sha256"]
            assert item["contentSize"] == f"{place.stat().st_size} B"
            covered.add(item["contentUrl"])
        else:
            covered |= {path for path in paths if fnmatch(path, item["includes"])}
    assert covered == paths


def test_fields_are_columns_and_pictures_join_them(described):
    folder, document = described
    sets = {item["@id"]: item for item in document["recordSet"]}
    with (folder / "index.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    columns = [field["source"]["extract"]["column"] for field in sets["examples"]["field"]]
    assert columns == list(rows[0])
    for field in [field for item in sets.values() for field in item["field"]]:
        assert field["dataType"] in DATA_TYPES
        extract = field["source"]["extract"]
        assert extract.get("fileProperty", "content") in FILE_PROPERTIES
    by_name = sets["pictures"]["field"][0]
    pattern = by_name["source"]["transform"]["regex"]
    found = {re.match(pattern, path.name)[1] for path in (folder / "images").glob("*/*.png")}
    assert found == {row["id"] for row in rows}
    assert by_name["references"]["field"]["@id"] == "examples/id"
