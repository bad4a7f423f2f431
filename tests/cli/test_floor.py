"""``hardpan floor``, run as a person runs them."""

import json
from pathlib import Path

import numpy as np
import pytest

from hardpan import bayes, cli, files
from hardpan.data.dataset import Dataset
from hardpan.predictions import Predictions


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


LEAN = ("--set", "classifiers=none")


def test_it_prints_a_bracket_and_writes_a_page(tmp_path: Path, capsys) -> None:
    code, shown, _ = run(capsys, "digits", "--set", "classifiers=none", "--out", tmp_path / "floor")
    assert code == 0
    words = " ".join(shown.split())
    assert "the lowest possible error is at most" in words
    assert "not part of the bracket" in words
    names = sorted(item.name for item in (tmp_path / "floor").iterdir())
    assert names == ["config.json", "index.html", "report.json"]
    report = files.load(tmp_path / "floor" / "report.json")
    assert report.config.seed == 0
    assert report["1-NN bound"].status == "not refuted"
    assert report.low == 0
    assert "Estimates under an assumption" in (tmp_path / "floor" / "index.html").read_text()


def test_it_gives_the_library_numbers_as_json(capsys) -> None:
    code, shown, errors = run(capsys, "digits", *LEAN, "--json")
    assert (code, errors) == (0, "")
    expected = bayes.floor("digits", classifiers=())
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
    code, shown, _ = run(capsys, "digits", "--predictions", tmp_path / "nets", *LEAN, "--json")
    assert code == 0
    entries = {entry["name"]: entry for entry in json.loads(shown)["entries"]}
    wrong = (probs[split.test].argmax(axis=1) != data.labels[split.test]).mean()
    assert entries["nets"]["estimate"]["value"] == pytest.approx(wrong)


def test_arrays_without_ids_are_joined_only_by_order(digits, probs, tmp_path: Path, capsys) -> None:
    _, split = digits
    np.save(tmp_path / "model.npy", probs[split.test])
    options = ("digits", "--predictions", tmp_path / "model.npy", *LEAN)
    code, shown, errors = run(capsys, *options)
    assert (code, shown) == (2, "")
    assert "by_order" in errors
    lean = ("--by-order", "--json")
    code, shown, _ = run(capsys, *options, *lean)
    assert code == 0
    assert [entry["name"] for entry in json.loads(shown)["seen"]] == ["model"]
    code, shown, _ = run(capsys, *options, *lean, "--held-out")
    assert code == 0
    entries = {entry["name"]: entry for entry in json.loads(shown)["entries"]}
    assert entries["model"]["role"] == "classifier"


def test_votes_with_and_without_a_dataset(probs, tmp_path: Path, capsys) -> None:
    np.savez(tmp_path / "votes.npz", votes=np.random.default_rng(0).multinomial(5, probs))
    truth = float((1 - probs.max(axis=1)).mean())
    for data in (("digits", *LEAN), ()):
        code, shown, _ = run(capsys, *data, "--votes", tmp_path / "votes.npz", "--json")
        assert code == 0
        bracket = json.loads(shown)["bracket"]
        assert bracket["low"] < truth < bracket["high"]
        assert bracket["low_assumption"] == "votes"
    np.save(tmp_path / "soft.npy", probs)
    code, shown, _ = run(capsys, "--votes", tmp_path / "soft.npy", "--json")
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
        ("digits", "--set", "classifiers=tea-leaves"): "classifiers",
        ("digits", "--set", "confidence=95"): "confidence",
        ("digits", "--label-noise", "2"): "--label-noise",
        ("digits", "--flow", tmp_path / "absent"): "absent",
        (tmp_path / "unlabelled.npz",): "labels",
        ("digits", "--out", tmp_path / "text.npz"): "text.npz",
        (): "DATA",
    }
    for arguments, argument in cases.items():
        code, shown, errors = run(capsys, *arguments, *(() if "classifiers=tea-leaves" in arguments else LEAN))
        assert (code, shown) == (2, ""), arguments
        assert argument in errors.strip().splitlines()[-1]
        assert "Traceback" not in errors


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
    code, shown, _ = run(capsys, tmp_path / "data.npz", *options)
    assert code == 0
    assert "Bayes error during its training" in (page / "index.html").read_text()
    assert [row["epoch"] for row in json.loads(shown)["along"]] == [1, 2]
    found = json.loads(shown)
    entries = {entry["name"]: entry for entry in found["entries"]}
    exact = flows.load(tmp_path / "flow").bayes_error()
    assert entries["Exact error of flow"]["estimate"]["value"] == pytest.approx(exact.value)
    assert entries["flow"]["role"] == "classifier"
    assert run(capsys, "digits", "--flow", tmp_path / "flow")[0] == 2


def test_a_floor_that_still_moves_is_said_to() -> None:
    from hardpan.pages.flow_charts import flow_training_chart, flow_unsettled_warning

    still = [{"epoch": n, "bayes_error": 0.5 / n, "validation_error": 0.2} for n in range(1, 9)]
    rest = [{"epoch": n, "bayes_error": 0.1 + 0.4 * 0.3**n} for n in range(9)]
    assert "8.33 % after epoch 6 and 6.25 % after epoch 8" in flow_unsettled_warning(still)[0]
    assert flow_unsettled_warning(rest) == flow_unsettled_warning(still[:1]) == ()
    noisy = [row | {"bayes_error_stderr": 0.05} for row in still]
    assert flow_unsettled_warning(noisy) == ()
    (chart,) = flow_training_chart(still)
    assert {row["series"] for row in chart.rows} == {"Bayes error of the flow", "error of its classifier"}
    assert len(chart.rows) == 16
    assert flow_training_chart(still[:1]) == ()
