"""Problems with planted truth are audited, and scored as docs/measured.md says."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bench import _fresh, _planted, verdicts

ROOT = Path(__file__).resolve().parents[2]
FIRST = """
import time
import numpy as np
P = {}
def copies(rng):
    x = rng.normal(size=(300, 3))
    x[260:] = x[:40]
    planted = {"test-copies": {"rows": np.arange(260, 300)}, "groups": {}}
    split = np.repeat(["train", "test"], [220, 80])
    return dict(x=x, y=(x[:, 0] > 0).astype(int), split=split, truth=0.0, planted=planted)
P["copies and a kind that is not there"] = ("none", copies)
def refused(rng):
    x, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    return dict(x=x, y=y, opts={"nonsense": 1}, truth=0.5, planted={"shift": {}})
P["refused"] = ("none", refused)
"""
SECOND = """
import pandas as pd
import numpy as np
P = {}
def constant(rng):
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    frame = frame.assign(b=1.0, kind=rng.choice(["u", "v"], 200))
    return dict(frame=frame, opts={"label": "kind"}, truth=0.5, planted={"constant-columns": {"columns": ["b"]}})
P["constant column"] = ("none", constant)
def slow(rng):
    import time
    time.sleep(600)
P["slow"] = ("none", slow)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("fresh")
    (path / "first.py").write_text(FIRST)
    (path / "second.py").write_text(SECOND)
    # Pages are not written, and what draws them is not needed.
    blocked = "import sys\nsys.modules.update(dict.fromkeys(['altair', 'vl_convert', 'playwright']))\n"
    (path / "blocked").mkdir()
    (path / "blocked" / "sitecustomize.py").write_text(blocked)
    return path


@pytest.fixture(scope="module")
def cells(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder / "blocked"))
        assert subprocess.run([sys.executable, "-c", "import altair"], capture_output=True).returncode
        tasks = _fresh.tasks_of(_fresh.files_in(folder), [0])
        part = folder / "part.jsonl"
        found = _fresh.run_audits([task for task in tasks if task.name != "slow"], part)
        slow = _fresh.run_audits([task for task in tasks if task.name == "slow"], part, limit=1.0)
    return {cell["problem"]: cell for cell in (*found, *slow)}


def test_what_was_planted_is_found_or_missed(cells):
    first, constant = cells["copies and a kind that is not there"], cells["constant column"]
    assert set(first["planted"]) == {"test-copies", "groups"}
    assert first["found"] == ["test-copies"]
    assert constant["found"] == ["constant-columns"]
    assert first["error"] == constant["error"] == ""
    assert _fresh.holds(first)  # the rule has no noise, so every lower end is 0
    assert first["low"] == 0


def test_audits_that_fail_are_counted_as_missed(cells):
    refused, slow = cells["refused"], cells["slow"]
    assert "nonsense" in refused["error"]
    assert "longer than 1 s" in slow["error"]
    assert refused["truth"] == 0.5
    assert _fresh.holds(refused) is False
    by_name = {row["measured"]: row for row in _fresh.summary(list(cells.values()))}
    assert (by_name["audits that failed"]["count"], by_name["audits that failed"]["met"]) == (2, False)
    assert (by_name["planted problems found"]["count"], by_name["planted problems found"]["of"]) == (2, 4)
    named = {row["problem"]: row for row in _fresh.by_problem(list(cells.values()))}
    assert "nonsense" in named["first: refused"]["errors"]
    assert named["first: copies and a kind that is not there"]["missed"] == "groups"


def test_a_finished_audit_is_not_run_again(cells, folder):
    task = _fresh.Task(str(folder / "first.py"), "refused", 0)
    (again,) = _fresh.run_audits([task], folder / "part.jsonl", limit=1e-9)  # would not have the time
    assert again == cells["refused"]


def problem(kind, rows=(), **details):
    return SimpleNamespace(kind=kind, rows=rows, details=details)


@pytest.mark.parametrize(
    ("item", "where", "listed"),
    [
        (problem("shift", columns=("age", "b")), {"columns": ["b"]}, True),
        (problem("shift", columns=("age",)), {"columns": ["age", "b"]}, False),
        (problem("leak-feature", columns=("b is missing",)), {"columns": ["b"]}, True),
        (problem("leak-feature", columns=("smoker=no",)), {"columns": ["smoker"]}, True),
        (problem("leak-feature", alone=({"column": "b", "error": 0.1},)), {"columns": ["b"]}, True),
        (problem("shift", columns={"columns": ({"column": "b", "p_value": 0.0},)}), {"columns": ["b"]}, True),
        (problem("shift", columns={"columns": (), "searched": 3}), {"columns": ["b"]}, False),
        (problem("leak-feature", columns=("b",)), {"columns": [1]}, True),  # the number of column b
        (problem("leak-feature", columns=("a",)), {"columns": [1]}, False),
        (problem("leak-feature", columns=("b",), message="a b"), {"columns": ["a"]}, False),
        (problem("near-copies", rows=(5, 6)), {"rows": [3, 4, 5, 6]}, True),
        (problem("near-copies", rows=(5, 9)), {"rows": [3, 4, 5, 6]}, False),
        (problem("near-copies", rows=()), {"columns": ["b"], "rows": [3]}, False),
        (problem("labels", rows=()), {"rows": np.array([3, 7])}, True),  # row 7 is in the table of labels
        (problem("groups"), {}, True),
    ],
)
def test_columns_or_half_of_the_rows_must_be_listed(item, where, listed):
    frame = pd.DataFrame({"a": [1], "b": [2]})
    assert _fresh._is_listed(item, where, frame, None, "row,id\n7,x\n") is listed


def test_rows_are_those_of_the_frame_where_the_reader_left_some_out():
    numbers = np.array([0, 2, 4, 6])
    assert _fresh._is_listed(problem("labels", rows=(3,)), {"rows": [6]}, None, numbers, "")
    assert not _fresh._is_listed(problem("labels", rows=(3,)), {"rows": [3]}, None, numbers, "")


def test_intervals_are_clopper_pearson():
    assert _fresh.counted(0, 10)["high"] == pytest.approx(1 - 0.025 ** (1 / 10), abs=1e-4)
    assert _fresh.counted(10, 10)["low"] == pytest.approx(0.025 ** (1 / 10), abs=1e-4)


def test_kinds_that_are_true_besides_are_no_chance_of_a_false_alarm():
    cell = {
        "file": "f",
        "problem": "p",
        "seed": 0,
        "error": "",
        "planted": {},
        "ok": [],
        "found": [],
        "truth": None,
    }
    alarmed = cell | {"alarms": ["labels"]}
    allowed = cell | {"problem": "q", "alarms": [], "ok": ["labels"]}
    (row,) = _fresh.by_kind([alarmed, allowed])
    assert row["false alarms"] == "1 of 1"


def test_development_problems_are_what_they_say():
    for name, (mode, make) in _planted.P.items():
        made = make(np.random.default_rng(0))
        n = len(made["frame"]) if "frame" in made else len(made["y"])
        assert mode in ("none", "train"), name
        assert made["truth"] is None or 0 <= made["truth"] < 1, name
        for where in made["planted"].values():
            assert all(0 <= row < n for row in where.get("rows", ())), name
    assert set(verdicts.GROUPS) == set(verdicts.P)
    assert not set(verdicts.P) & set(_planted.P)


def test_the_example_in_the_documentation_runs(tmp_path):
    text = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "example.py").write_text(textwrap.dedent(code))
    (task,) = _fresh.tasks_of(_fresh.files_in(tmp_path), [0])
    (cell,) = _fresh.run_audits([task])
    assert cell["found"] == ["test-copies"]
    assert _fresh.holds(cell)
