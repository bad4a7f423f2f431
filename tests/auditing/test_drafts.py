"""The page of an audit that still runs: complete, true, and said to be unfinished."""

import json
import re

import numpy as np
import pytest

from hardpan import Dataset, auditing, files, look
from hardpan.pages.auditing.first_screen import PENDING, SEARCHED

SETTINGS = {"flow": "none", "seeds": 1, "ensemble_epochs": 1, "budget": 5.0}
RELOADS = re.compile(r'<meta http-equiv="refresh"')


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    x = rng.normal(size=(600, 4)) + 2.0 * np.eye(3, 4)[y]
    x[500:560] = x[:60]  # copies across the official split
    return Dataset.from_arrays(x, y, split=np.repeat(["train", "test"], [500, 100]), name="small")


class Watching:
    """A progress that reads what lies in the folder at every step, and may stop the audit."""

    def __init__(self, folder, stop_at=2.0):
        self.folder, self.stop_at, self.seen = folder, stop_at, []

    def __call__(self, step, fraction):
        if (self.folder / "report.json").exists():
            report = json.loads((self.folder / "report.json").read_text())
            self.seen.append((report, (self.folder / "index.html").read_text(encoding="utf-8")))
        if fraction >= self.stop_at:
            raise KeyboardInterrupt


def test_versions_before_the_last_say_what_they_lack_and_reload(data, tmp_path):
    watching = Watching(tmp_path)
    final = auditing.audit(data, out=tmp_path, progress=watching, **SETTINGS)
    drafts = [item for item in watching.seen if item[0]["pending"]]
    assert drafts
    final_copies = next(item for item in final.problems if item.kind == "test-copies")
    for report, page in drafts:
        assert RELOADS.search(page)
        assert page.rstrip().endswith("</html>")
        assert not set(report["pending"]) & set(report["searched"])
        assert set(report["pending"]) <= set(SEARCHED) | set(PENDING)
        assert report["size"] == final.size
        copies = next(item for item in report["problems"] if item["kind"] == "test-copies")
        assert copies["count"]["value"] == final_copies.count.value
    assert final.pending == ()
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert not RELOADS.search(page)
    assert "not finished" not in page
    assert files.load(tmp_path / "report.json") == final
    assert (tmp_path / "examples.parquet").is_file()


def test_a_stopped_audit_leaves_its_last_version_which_reloads_no_longer(data, tmp_path):
    settings = SETTINGS | {"ensemble": "none"}
    auditing.audit(data, out=tmp_path, **{**settings, "seed": 1})  # an older result
    with pytest.raises(KeyboardInterrupt):
        auditing.audit(data, out=tmp_path, progress=Watching(tmp_path, stop_at=0.8), **settings)
    report = auditing.read_audit(tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert report.pending
    assert report.config.seed == 0
    assert not RELOADS.search(page)
    assert "not finished" in page
    assert not (tmp_path / "examples.parquet").exists()  # of the older result
    assert [step.question for step in look(tmp_path).steps] == ["resume"]
