"""The floor commands, run as a person runs them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hardpan import bayes, cli, files
from hardpan.data.dataset import Dataset
from hardpan.predictions import Predictions
from hardpan.studies.floor_sets import find_source


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["floor", *map(str, arguments)])
    shown = capsys.readouterr()
    return int(stopped.value.code or 0), shown.out, shown.err


@pytest.fixture(scope="module")
def digits():
    data = Dataset.open("digits")
    return data, data.splits()


@pytest.fixture(scope="module")
def probs(digits) -> np.ndarray:
    """Probabilities that are right on 99 % of the digits, and know it."""
    data, _ = digits
    rng = np.random.default_rng(0)
    guess = np.where(rng.random(len(data)) < 0.99, data.labels, rng.integers(0, 10, len(data)))
    return 0.99 * np.eye(10)[guess] + 0.001


def marked(split, n: int) -> np.ndarray:
    parts = np.full(n, "train", dtype="<U10")
    parts[split.validation], parts[split.test] = "validation", "test"
    return parts


LEAN = ("--estimators", "neighbours", "--classifiers", "none")


def test_estimate_prints_a_bracket_and_writes_a_page(tmp_path: Path, capsys) -> None:
    code, shown, _ = run(capsys, "estimate", "digits", "--classifiers", "none", "--out", tmp_path / "floor")
    assert code == 0
    words = " ".join(shown.split())
    assert "the lowest possible error is at most" in words
    assert "not part of the bracket" in words
    names = sorted(item.name for item in (tmp_path / "floor").iterdir())
    assert names == ["config.json", "index.html", "report.json"]
    report = files.load(tmp_path / "floor" / "report.json")
    assert report.config.seed == 0
    assert report["Gaussian model"].status == "assumption rejected"
    assert report.low == 0
    assert "Estimates under an assumption" in (tmp_path / "floor" / "index.html").read_text()


def test_estimate_gives_the_library_numbers_as_json(capsys) -> None:
    code, shown, errors = run(capsys, "estimate", "digits", *LEAN, "--json")
    assert (code, errors) == (0, "")
    expected = bayes.floor("digits", estimators=("neighbours",), classifiers=())
    assert files.from_json(json.loads(shown)) == expected


def test_a_store_of_two_seeds_is_joined_by_id(digits, probs, tmp_path: Path, capsys) -> None:
    data, split = digits
    order = np.random.default_rng(1).permutation(len(data))
    held = Predictions.create(
        tmp_path / "nets",
        ids=data.ids[order],
        n_classes=10,
        labels=data.labels[order],
        split=marked(split, len(data))[order],
    )
    for seed in (0, 1):
        held.write(seed, 1, np.full((len(data), 10), 0.1))
        held.write(seed, 2, probs[order])
    code, shown, _ = run(capsys, "estimate", "digits", "--predictions", tmp_path / "nets", *LEAN, "--json")
    assert code == 0
    entries = {entry["name"]: entry for entry in json.loads(shown)["entries"]}
    wrong = (probs[split.test].argmax(axis=1) != data.labels[split.test]).mean()
    assert entries["nets"]["estimate"]["value"] == pytest.approx(wrong)
    assert "360 validation examples" in entries["Temperature plug-in of nets"]["estimate"]["method"]


def test_arrays_without_ids_are_joined_only_by_order(digits, probs, tmp_path: Path, capsys) -> None:
    _, split = digits
    np.save(tmp_path / "model.npy", probs[split.test])
    options = ("estimate", "digits", "--predictions", tmp_path / "model.npy", *LEAN)
    code, shown, errors = run(capsys, *options)
    assert (code, shown) == (2, "")
    assert "--by-order" in errors
    lean = ("--by-order", "--calibrations", "temperature", "--json")
    code, shown, _ = run(capsys, *options, *lean)
    assert code == 0
    assert [entry["name"] for entry in json.loads(shown)["seen"]] == ["model"]
    code, shown, _ = run(capsys, *options, *lean, "--held-out")
    assert code == 0
    entries = {entry["name"]: entry for entry in json.loads(shown)["entries"]}
    assert "folds" in entries["Temperature plug-in of model"]["estimate"]["method"]
    assert "Vector plug-in of model" not in entries


def test_votes_with_and_without_a_dataset(probs, tmp_path: Path, capsys) -> None:
    np.savez(tmp_path / "votes.npz", votes=np.random.default_rng(0).multinomial(5, probs))
    truth = float((1 - probs.max(axis=1)).mean())
    for data in (("digits", *LEAN), ()):
        code, shown, _ = run(capsys, "estimate", *data, "--votes", tmp_path / "votes.npz", "--json")
        assert code == 0
        bracket = json.loads(shown)["bracket"]
        assert bracket["low"] < truth < bracket["high"]
        assert bracket["low_assumption"] == "votes"
    np.save(tmp_path / "soft.npy", probs)
    code, shown, _ = run(capsys, "estimate", "--votes", tmp_path / "soft.npy", "--json")
    entries = {entry["name"]: entry["estimate"] for entry in json.loads(shown)["entries"]}
    assert entries["Soft labels"]["value"] == pytest.approx(truth)


def test_bad_input_ends_with_one_sentence(digits, probs, tmp_path: Path, capsys) -> None:
    data, split = digits
    trained = {"ids": data.ids, "labels": data.labels, "split": np.full(len(data), "train")}
    np.savez(tmp_path / "trained.npz", probs=probs, **trained)
    np.savez(tmp_path / "shifted.npz", probs=probs, ids=data.ids, labels=(data.labels + 1) % 10)
    np.savez(tmp_path / "part.npz", probs=probs[split.train], ids=data.ids[split.train])
    np.savez(tmp_path / "three.npz", probs=np.full((5, 3), 1 / 3), ids=np.array(list("abcde")))
    np.savez(tmp_path / "empty.npz", other=np.eye(3))
    np.save(tmp_path / "wide.npy", np.ones((4, 3)))
    (tmp_path / "text.npz").write_text("no array")
    np.savez(tmp_path / "unlabelled.npz", x=np.eye(20))
    cases = {
        ("digits", "--predictions", tmp_path / "trained.npz"): "359",
        ("digits", "--predictions", tmp_path / "shifted.npz"): "labels",
        ("digits", "--predictions", tmp_path / "part.npz"): "359",
        ("digits", "--predictions", tmp_path / "three.npz"): "3 classes",
        ("digits", "--predictions", tmp_path / "absent.npz"): "absent.npz",
        ("digits", "--votes", tmp_path / "absent.npz"): "absent.npz",
        ("digits", "--votes", tmp_path / "text.npz"): "text.npz",
        ("digits", "--votes", tmp_path / "empty.npz"): "empty.npz",
        ("digits", "--votes", tmp_path / "wide.npy"): "wide.npy",
        ("digits", "--estimators", "tea-leaves"): "estimators",
        ("digits", "--confidence", "95"): "confidence",
        ("digits", "--label-noise", "2"): "--label-noise",
        ("digits", "--flow", tmp_path / "absent"): "absent",
        (tmp_path / "unlabelled.npz",): "labels",
        ("digits", "--out", tmp_path / "text.npz"): "text.npz",
        (): "DATA",
    }
    for arguments, argument in cases.items():
        code, shown, errors = run(capsys, "estimate", *arguments, *(() if "--estimators" in arguments else LEAN))
        assert (code, shown) == (2, ""), arguments
        assert argument in errors.strip().splitlines()[-1]
        assert "Traceback" not in errors


QUICK = ("bench", "--sources", "two-gaussians", "--floors", "0.05,0.2", "--sizes", "200", "--runs", "2")


def test_bench_prints_tables_and_goes_on_where_it_stopped(tmp_path: Path, capsys) -> None:
    out, markdown = tmp_path / "bench", tmp_path / "docs" / "table.md"
    code, shown, _ = run(capsys, *QUICK, "--estimators", "neighbours,votes", "--out", out, "--markdown", markdown)
    assert code == 0
    assert "two-gaussians" in shown
    assert markdown.read_text() == (out / "table.md").read_text()
    before = (out / "cells.jsonl").read_text()
    code, again, _ = run(capsys, *QUICK, "--estimators", "neighbours,votes,soft-labels", "--out", out, "--json")
    after = (out / "cells.jsonl").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == len(before.splitlines()) + 4
    assert {row["estimator"] for row in json.loads(again)["rows"]} >= {"votes uncorrected", "soft-labels"}
    assert files.load(out / "report.json").config.runs == 2


def test_bench_refuses_in_one_sentence(capsys) -> None:
    for arguments, message in {
        ("--estimators", "tea-leaves"): "estimator",
        ("--estimators", "no_such_module:f"): "no_such_module",
        ("--sources", "sea"): "source",
        ("--floors", "0.7"): "floor",
        ("--floors", "often"): "--floors",
        ("--sizes", "10"): "size",
        ("--sizes", "200.5"): "--sizes",
    }.items():
        code, shown, errors = run(capsys, "bench", *arguments)
        assert (code, shown) == (2, "")
        assert message in errors


@pytest.mark.soak
def test_a_bench_that_is_killed_loses_at_most_one_cell(tmp_path: Path) -> None:
    out = tmp_path / "bench"
    command = [sys.executable, "-m", "hardpan", "floor", *QUICK[:-4], "--sizes", "400", "--runs", "12"]
    command += ["--estimators", "neighbours,tree,votes", "--out", str(out)]
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen = (out / "cells.jsonl").stat().st_size if (out / "cells.jsonl").exists() else 0
        while process.poll() is None and (
            not (out / "cells.jsonl").exists() or (out / "cells.jsonl").stat().st_size <= seen + 300
        ):
            time.sleep(0.02)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert subprocess.run(command, capture_output=True).returncode == 0
    keys = [
        json.loads(line)["key"] for line in (out / "cells.jsonl").read_text().splitlines() if line.endswith("}")
    ]
    assert len(keys) == len(set(keys)) == 2 * 12 * 3


def test_a_flow_is_joined_and_held_against_its_own_decisions(tmp_path: Path, capsys) -> None:
    flows = pytest.importorskip("hardpan.flows")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    x = rng.normal(size=(600, 2)).astype(np.float32)
    x[:, 0] += 2 * y
    np.savez(tmp_path / "data.npz", x=x, y=y)
    flows.fit(Dataset.open(tmp_path / "data.npz"), flows.FlowConfig(preset="tiny", epochs=2)).save(
        tmp_path / "flow"
    )
    page = tmp_path / "page"
    options = ("--flow", tmp_path / "flow", *LEAN, "--json", "--out", page)
    code, shown, _ = run(capsys, "estimate", tmp_path / "data.npz", *options)
    assert code == 0
    assert "Bayes error during its training" in (page / "index.html").read_text()
    assert [row["epoch"] for row in json.loads(shown)["along"]] == [1, 2]
    found = json.loads(shown)
    entries = {entry["name"]: entry for entry in found["entries"]}
    exact = flows.load(tmp_path / "flow").bayes_error()
    assert entries["Exact error of flow"]["estimate"]["value"] == pytest.approx(exact.value)
    assert entries["Temperature plug-in of flow"]["role"] == "upper"
    assert entries["flow"]["role"] == "classifier"
    assert found["differences"][0]["accuracy"]["n"] > 0
    assert run(capsys, "estimate", "digits", "--flow", tmp_path / "flow")[0] == 2
    drawn = find_source(f"flow:{tmp_path / 'flow'}")(4000, 0.2, 0)
    assert drawn.x.shape == (4000, 2)
    assert (1 - drawn.posterior.max(axis=1)).mean() == pytest.approx(0.2, abs=0.01)
    assert (drawn.posterior.argmax(axis=1) != drawn.y).mean() == pytest.approx(0.2, abs=0.03)
    shorter = find_source(f"flow:{tmp_path / 'flow'}")(500, 0.2, 0)
    np.testing.assert_array_equal(shorter.y, drawn.y[:500])
    np.testing.assert_allclose(shorter.x, drawn.x[:500], rtol=1e-4, atol=1e-4)
    assert not np.array_equal(find_source(f"flow:{tmp_path / 'flow'}")(500, 0.2, 1).y, shorter.y)


def test_a_floor_that_still_moves_is_said_to() -> None:
    from hardpan.pages.floors import training_chart, unsettled_warning

    still = [{"epoch": n, "bayes_error": 0.5 / n, "validation_error": 0.2} for n in range(1, 9)]
    rest = [{"epoch": n, "bayes_error": 0.1 + 0.4 * 0.3**n} for n in range(9)]
    assert "8.33 % after epoch 6 and 6.25 % after epoch 8" in unsettled_warning(still)
    assert unsettled_warning(rest) == unsettled_warning(still[:1]) == ""
    noisy = [row | {"bayes_error_stderr": 0.05} for row in still]
    assert unsettled_warning(noisy) == ""
    chart = training_chart(still)
    assert {row["series"] for row in chart.rows} == {"Bayes error of the flow", "error of its classifier"}
    assert len(chart.rows) == 16
    assert training_chart(still[:1]) is None
