"""The bench harness measures what it says, and a record keeps what other machines measured."""

import ast
import importlib.util
import json

import pytest

from bench import _records, harness


def allocate(megabytes):
    return {"megabytes": megabytes}


def touch(given):
    block = bytearray(given["megabytes"] * 10**6)
    for place in range(0, len(block), 4096):
        block[place] = 1
    print("noise on stdout must not disturb the answer")
    return {"length": len(block)}


def fail(given):
    raise ValueError(f"planted {given}")


def test_extra_memory_is_the_planted_allocation():
    done = harness.isolated(allocate, touch, megabytes=80, repeats=2)
    assert done.output == {"length": 80 * 10**6}
    assert done.repeats == 2
    assert 0 < done.best <= done.median
    assert done.extra_megabytes == pytest.approx(80, rel=0.1)


def test_failure_in_the_fresh_process_is_told():
    with pytest.raises(RuntimeError, match="planted"):
        harness.isolated(allocate, fail, megabytes=1)


def test_measure_counts_calls_and_keeps_the_last_result():
    calls = []
    done = harness.measure(lambda: calls.append(1) or len(calls), repeats=4, warmup=2)
    assert done.output == len(calls) == 6
    assert done.repeats == 4


@pytest.mark.parametrize(
    ("value", "bounds", "met"),
    [
        (0.5, {"at_most": 0.5}, True),
        (0.51, {"at_most": 0.5}, False),
        (0.95, {"at_least": 0.916, "at_most": 0.978}, True),
        (0.99, {"at_least": 0.916, "at_most": 0.978}, False),
        (float("nan"), {"at_most": 1.0}, False),
        (None, {"at_most": 1.0}, False),
    ],
)
def test_requirements_are_met_or_not(value, bounds, met):
    assert harness.against(value, **bounds)["met"] is met


def test_a_record_replaces_only_its_own_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(_records, "RECORDS", tmp_path)
    monkeypatch.setattr(_records, "RESULTS", tmp_path / "RESULTS.md")
    other = {"cpu": "Other", "cores": 64, "memory GiB": 512, "gpu": "GPU X", "system": "Linux"}
    old = harness.table("old", [{"s": 1.0, **harness.against(1.0, at_most=0.5)}])
    new = harness.table("new", [{"s": 0.25, **harness.against(0.25, at_most=0.5)}])
    with monkeypatch.context() as patch:
        patch.setattr(_records, "machine", lambda: other)
        _records.keep("topic", [old], (), 1, 1.0)
    _records.keep("topic", [old], (), 1, 1.0)
    path = _records.keep("topic", [new], (), 1, 1.0)
    machines = json.loads(path.read_text())["machines"]
    assert machines[_records.machine_key(other)]["tables"][0]["title"] == "old"
    assert machines[_records.machine_key(_records.machine())]["tables"][0]["title"] == "new"
    page = _records.write_results({"topic": "What it is."}).read_text()
    assert "**no**" in page
    assert "GPU X" in page
    assert "0.25" in page


def test_a_table_measured_alone_leaves_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(_records, "RECORDS", tmp_path)
    one, two = (harness.table(title, [{"s": 1.0}]) for title in ("one", "two"))
    _records.keep("topic", [one, two], (), 1, 1.0)
    path = _records.keep("topic", [harness.table("one", [{"s": 2.0}])], (), 1, 1.0, alone="first")
    (entry,) = json.loads(path.read_text())["machines"].values()
    assert [(part["title"], part["rows"][0]["s"]) for part in entry["tables"]] == [("two", 1.0), ("one", 2.0)]


def test_rows_refuse_what_json_cannot_hold():
    assert harness.table("t", [{"a": float("inf")}])["rows"] == [{"a": None}]
    with pytest.raises(TypeError, match="list"):
        harness.table("t", [{"a": []}])


@pytest.mark.parametrize("folder", ["bench", "reproductions"])
def test_what_is_imported_from_hardpan_exists(folder):
    """Topics import inside functions that only a run of minutes calls."""
    for path in sorted((harness.ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "hardpan":
                module = importlib.import_module(node.module)
                for name in (alias.name for alias in node.names):
                    known = hasattr(module, name) or importlib.util.find_spec(f"{node.module}.{name}")
                    assert known, f"{path}:{node.lineno}: {node.module} has no {name}"
