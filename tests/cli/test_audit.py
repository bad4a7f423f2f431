import json

import numpy as np
import pytest

from hardpan import cli, files
from hardpan.auditing import Audit, AuditConfig
from hardpan.auditing.evidence import AuditStep
from hardpan.cli.audit import show_audit_plan
from hardpan.tables import write_table

BARE = ("--ensemble", "none", "--flow", "none")  # nothing is trained


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["audit", *arguments])
    shown = capsys.readouterr()
    return stopped.value.code, shown.out, shown.err


def test_the_summary_is_about_ten_lines_and_names_the_page(capsys, tmp_path):
    folder = tmp_path / "deep" / "digits"
    code, out, _ = run(capsys, "digits", "--out", str(folder), *BARE)
    assert code == 0
    lines = [line for line in out.splitlines() if line.strip()]
    assert 6 <= len(lines) <= 20
    assert "index.html" in out.replace("\n", "").replace(" ", "")
    names = ["config.json", "examples.parquet", "index.html", "problems", "report.json", "thumbnails.npy", "work"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert files.load(folder / "config.json") == AuditConfig(ensemble="none", flow="none")
    assert isinstance(files.load(folder / "report.json"), Audit)


def test_json_is_the_report_alone_and_the_seed_is_used(capsys, tmp_path):
    code, out, _ = run(capsys, "digits", "--out", str(tmp_path), "--seed", "3", "--json", *BARE)
    assert code == 0
    found = files.from_json(json.loads(out))
    assert found.config.seed == 3
    assert found == files.load(tmp_path / "report.json")


@pytest.mark.parametrize("place", ["file/inside", "file"])
def test_a_folder_that_cannot_be_is_refused_before_any_work(capsys, tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("here")
    monkeypatch.setattr("hardpan.audit", lambda *_: pytest.fail("worked for nothing"))
    code, out, err = run(capsys, "digits", "--out", str(tmp_path / place))
    assert (code, out) == (2, "")
    assert "is not a folder" in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_fail_on_is_a_gate(capsys, tmp_path):
    x = np.random.default_rng(0).normal(size=(200, 3))
    y = np.arange(200) % 2
    columns = dict(zip("abc", x.T, strict=True)) | {
        "leak": y,
        "site": np.arange(200) // 5,
        "label": y,
        "d": np.ones(200),
    }
    write_table(tmp_path / "leak.csv", columns)
    out = ("--out", str(tmp_path / "out"), "--group", "site", *BARE)
    assert run(capsys, str(tmp_path / "leak.csv"), "--fail-on", "labels,constant-columns", *out)[0] == 1
    code, shown, _ = run(capsys, str(tmp_path / "leak.csv"), "--fail-on", "test-copies,leak-feature", *out)
    assert code == 0
    assert "Features: a, b, c, leak, d\n" in shown
    code, _, err = run(capsys, str(tmp_path / "leak.csv"), "--fail-on", "magic", *out)
    assert code == 2
    assert "--fail-on" in err


def test_the_plan_names_the_extra_in_brackets(capsys, tmp_path):
    show_audit_plan(tmp_path, (AuditStep("networks", 0.0, skipped="no-torch"),))
    assert "hardpan[torch]" in capsys.readouterr().err.replace("\n", "")
