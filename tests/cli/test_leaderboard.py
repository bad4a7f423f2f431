"""hardpan leaderboard on the command line: one folder of simulated logs, every command."""

import csv
import json

import numpy as np
import pytest

from hardpan import cli, files


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("logs")
    ease, truth = rng.normal(0.5, 1.0, 120), rng.integers(0, 4, 120)
    for number, skill in enumerate(np.linspace(-1.5, 2, 8)):
        right = rng.random(120) < 1 / (1 + np.exp(-(skill + ease)))
        said = np.where(right, truth, (truth + 1) % 4)
        rows = [
            {
                "doc_id": doc,
                "doc": {"question": str(doc)},
                "target": "ABCD"[truth[doc]],
                "filtered_resps": ["ABCD"[said[doc]]],
                "resps": [["ABCD"[said[doc]]]],
                "filter": "none",
                "metrics": ["exact_match"],
                "exact_match": float(right[doc]),
            }
            for doc in range(120)
        ]
        path = folder / f"m{number}" / "samples_quiz_2026-11-16T12-00-00.000000.jsonl"
        path.parent.mkdir()
        path.write_text("\n".join(map(json.dumps, rows)))
    return folder


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as done:
        cli.main([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    return done.value.code or 0, shown.out, shown.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("rank",),
        ("items", "--irt", "rasch"),
        ("keys",),
        ("shorten", "--items", "40", "--method", "stratified"),
        ("report", "--short-items", "30"),
    ],
)
def test_commands_print_json_alone(logs, capsys, arguments):
    code, out, _ = run(capsys, "leaderboard", arguments[0], logs, *arguments[1:], "--json")
    assert code == 0
    result = files.from_json(json.loads(out))
    assert result.headline


def test_commands_state_how_the_scores_were_read(logs, capsys):
    code, out, err = run(capsys, "leaderboard", "rank", logs)
    assert code == 0
    assert "Metric: exact_match." in err
    assert "Metric" not in out
    assert "Row minus column" not in out


def test_report_writes_the_page_and_its_lists(logs, capsys, tmp_path):
    code, out, _ = run(capsys, "leaderboard", "report", logs, "--out", tmp_path / "board")
    assert code == 0
    assert "index.html" in out
    written = {path.name for path in (tmp_path / "board").iterdir()}
    lists = {"ranking.csv", "items.csv", "review.csv", "samples.json"}
    assert {"index.html", "report.json", "config.json"} | lists <= written
    config = files.load(tmp_path / "board" / "config.json")
    assert config.options["logs"] == (logs.as_posix(),)
    assert (config.options["model"], config.options["unparsed"], config.options["seed"]) == ("2pl", "wrong", 0)
    samples = json.loads((tmp_path / "board" / "samples.json").read_text())
    assert list(samples) == ["quiz"]
    assert all(isinstance(doc, int) for doc in samples["quiz"])
    page = (tmp_path / "board" / "index.html").read_text()
    assert "Models (best on top)" in page


def test_review_sheet_goes_back_in(logs, capsys, tmp_path):
    assert run(capsys, "leaderboard", "keys", logs, "--out", tmp_path / "keys")[0] == 0
    with open(tmp_path / "keys" / "review.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert run(capsys, "leaderboard", "keys", logs, "--reviewed", tmp_path / "keys" / "review.csv")[0] == 2
    rows[0]["correct_key"] = rows[0]["suggested"]
    with open(tmp_path / "reviewed.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    code, out, _ = run(capsys, "leaderboard", "keys", logs, "--reviewed", tmp_path / "reviewed.csv", "--json")
    assert code == 0
    assert json.loads(out)["items"] == [rows[0]["item"]]


def test_predict_reads_scores_or_predictions(logs, capsys, tmp_path):
    rng = np.random.default_rng(1)
    labels, skill = rng.integers(0, 5, 2000), np.linspace(0.5, 0.95, 6)[:, None]
    old = np.where(rng.random((6, 2000)) < skill, labels, rng.integers(0, 5, (6, 2000)))
    np.savez(tmp_path / "p.npz", old=old, labels=labels, new=old[:, :1000])
    old, labels, new = (f"{tmp_path / 'p.npz'}::{name}" for name in ("old", "labels", "new"))
    assert run(capsys, "leaderboard", "predict", old, new, "--labels", labels)[0] == 0
    assert run(capsys, "leaderboard", "predict", tmp_path / "p.npz", new, "--labels", labels)[0] == 2
    assert run(capsys, "leaderboard", "predict", logs, logs)[0] == 0
    for name in ("agreement", "inflation"):
        code, _, errors = run(capsys, "leaderboard", name, old, labels, new)
        assert (code, "leaderboard predict" in errors) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("rank", "LOGS", "--group", "passage"), "passage"),
        (("rank", "no such folder"), "no such folder"),
        (("shorten", "LOGS", "--items", "5000"), "items"),
    ],
)
def test_bad_input_is_one_sentence(logs, capsys, arguments, name):
    code, out, err = run(capsys, "leaderboard", *(logs if part == "LOGS" else part for part in arguments))
    assert (code, out) == (2, "")
    assert name in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("rank",),
        ("items",),
        ("keys",),
        ("shorten", "--items", "40"),
        ("predict", "LOGS"),
    ],
)
def test_pages_state_how_the_scores_were_read(logs, capsys, tmp_path, arguments):
    rest = [logs if text == "LOGS" else text for text in arguments[1:]]
    code, out, _ = run(capsys, "leaderboard", arguments[0], logs, *rest, "--out", tmp_path / "page")
    assert code == 0
    assert "Metric" not in out  # on stderr
    assert "Metric: exact_match." in (tmp_path / "page" / "index.html").read_text()
    assert (tmp_path / "page" / "config.json").exists()
