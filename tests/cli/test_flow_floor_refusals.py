"""What people get wrong with the flow and floor commands: exit code 2, nothing on stdout, one sentence."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from hardpan import files, flows
from hardpan.cli import main
from hardpan.data.dataset import Dataset
from hardpan.estimates import Estimate
from hardpan.flows.synthetic_benchmark import Benchmark

TINY = ["--preset", "tiny", "--epochs", "1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a flow, a benchmark, and files that are wrong in one way each."""
    place = tmp_path_factory.mktemp("refusals")
    small = {"steps": 1, "levels": 1, "width": 8}
    flow = flows.fit(Dataset.open("digits"), flows.FlowConfig(preset="tiny", epochs=1, **small), out=place / "flow")
    made = flows.synthesize(flow, place / "made", temperature=0.7, n=200, source=str(place / "flow"))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(90, 3)), np.arange(90) % 3
    vectors = {"v.npz": {"x": x, "y": y}, "nolabels.npz": {"x": x}, "oneclass.npz": {"x": x, "y": 0 * y}}
    vectors["nan.npz"] = {"x": np.where(np.arange(90)[:, None] == 7, np.nan, x), "y": y}
    vectors["constant.npz"] = {"x": np.ones((90, 3)), "y": y}
    vectors["gap.npz"] = {"x": x, "y": 2 * y}
    vectors["float-labels.npz"] = {"x": x, "y": y + 0.5}
    vectors["few.npz"] = {"x": x[:2], "y": y[:2]}
    vectors["objects.npz"] = {"x": np.array([{}, {}], dtype=object), "y": y[:2]}
    for name, arrays in vectors.items():
        np.savez(place / name, **arrays)
    flows.fit(Dataset.open(place / "v.npz"), flows.FlowConfig(preset="tiny", epochs=1), out=place / "vector-flow")
    (place / "cut.npz").write_bytes((place / "v.npz").read_bytes()[:-40])
    (place / "text.npz").write_text("no array")
    header = struct.pack(">HBB3I", 0, 8, 3, 2**31, 2**31, 2**31)
    (place / "train-images-idx3-ubyte").write_bytes(header)
    (place / "pickled").mkdir()
    (place / "pickled" / "data_batch_1").write_bytes(b"\x80\x02}q\x01.")
    for broken, change in (("broken", lambda text: text[:50]), ("lied", lambda text: text.replace("a", "b"))):
        shutil.copytree(place / "flow", place / broken)
        card = place / broken / "flow.json"
        card.write_text(change(card.read_text()))
    (place / "no-benchmark").mkdir()
    files.save(Estimate(0.1, 0.0, 0.1, 0.1), place / "no-benchmark" / "manifest.json")
    (place / "half").mkdir()
    (place / "half" / "manifest.json").write_text("{")
    _predictions(place, made)
    return place


def _predictions(place: Path, made: Benchmark) -> None:
    probs = made.posterior[made.test]
    np.save(place / "infinite.npy", np.where(np.arange(10) == 3, np.inf, probs))
    np.save(place / "complex.npy", probs + 1j)
    np.save(place / "few.npy", probs[:-1])
    np.save(place / "narrow.npy", probs[:, :3] / probs[:, :3].sum(axis=1, keepdims=True))
    np.save(place / "nan.npy", np.where(np.arange(10) == 3, np.nan, probs))
    np.save(place / "flat.npy", probs.ravel())
    np.save(place / "text.npy", np.full((len(probs), 10), "a"))
    np.save(place / "empty.npy", np.zeros((0, 10)))
    np.save(place / "right.npy", probs)
    np.savez(place / "other-ids.npz", probs=probs, ids=np.array([f"other-{i}" for i in range(len(probs))]))
    np.savez(place / "votes-nan.npz", votes=np.full((1797, 10), np.nan))
    np.savez(place / "votes-negative.npz", votes=np.full((1797, 10), -1))
    np.savez(place / "votes-single.npz", votes=np.eye(10, dtype=int)[np.zeros(1797, dtype=int)])
    np.savez(place / "votes-short.npz", votes=np.ones((3, 10), dtype=int))
    np.savez(place / "votes-shares.npz", votes=np.full((1797, 10), 0.1))
    np.savez(place / "soft-sums.npz", soft_labels=np.full((1797, 10), 0.3))
    np.savez(place / "neither.npz", other=np.eye(3))


FIT_CASES = [
    [], ["nothing-here"], ["text.npz"], ["cut.npz"], ["nan.npz"], ["constant.npz"], ["gap.npz"],
    ["float-labels.npz"], ["few.npz"], ["objects.npz"], ["nolabels.npz"], ["oneclass.npz"],
    ["train-images-idx3-ubyte"], ["pickled"],
    ["v.npz", "--preset", "huge"], ["v.npz", "--epochs", "0"], ["v.npz", "--epochs", "many"],
    ["v.npz", "--set", "learning_rate=nan"], ["v.npz", "--class-weight", "-1"], ["v.npz", "--class-weight", "inf"],
    ["v.npz", "--seed", "-1"], ["v.npz", "--device", "tpu"], ["v.npz", "--device", "cuda:99"],
    ["v.npz", "--set", "precision=fp8"], ["v.npz", "--out", "text.npz"], ["v.npz", "--out", "text.npz/inside"],
    ["digits", "--set", "grey_levels=4"], ["v.npz", "--set", "batch_size=-3"], ["v.npz", "--set", "patience=-1"],
    ["v.npz", "--no-such-option"],
]  # fmt: skip
SYNTHESIZE_CASES = [
    [], ["nowhere"], ["nowhere", "--out", "x"], ["broken", "--out", "x"], ["lied", "--out", "x"],
    ["flow", "--bayes-error", "0.1", "--temperature", "2", "--out", "x"],
    ["flow", "--bayes-error", "0", "--out", "x"], ["flow", "--bayes-error", "0.95", "--out", "x"],
    ["flow", "--bayes-error", "nan", "--out", "x"], ["flow", "--bayes-error", "a", "--out", "x"],
    ["flow", "--temperature", "0", "--out", "x"], ["flow", "--temperature", "nan", "--out", "x"],
    ["flow", "--temperature", "inf", "--out", "x"], ["flow", "--temperature", "1e300", "-n", "50", "--out", "x"],
    ["flow", "-n", "3", "--out", "x"], ["flow", "-n", "-5", "--out", "x"], ["flow", "-n", "1e3", "--out", "x"],
    ["flow", "--test-fraction", "1", "--out", "x"], ["flow", "--test-fraction", "nan", "--out", "x"],
    ["flow", "--format", "tiff", "--out", "x"], ["vector-flow", "--format", "npz8", "--out", "x"],
    ["flow", "--seed", "-1", "--out", "x"], ["flow", "--out", "text.npz"], ["flow", "-n", "60", "--out", "made"],
    ["flow", "--out", "half"], ["flow", "--out", "no-benchmark"],
]  # fmt: skip
JUDGE_CASES = [
    [], ["made"], ["nowhere", "right.npy"], ["no-benchmark", "right.npy"], ["half", "right.npy"],
    ["flow", "right.npy"],
    *(["made", name, "--by-order"] for name in (
        "nowhere.npz", "infinite.npy", "complex.npy", "few.npy", "narrow.npy", "nan.npy",
        "flat.npy", "text.npy", "empty.npy", "text.npz", "cut.npz", "flow",
    )),
    ["made", "other-ids.npz"], ["made", "right.npy"],
    ["made", "right.npy", "--by-order", "--out", "text.npz"],
]  # fmt: skip
QUICK = ["--set", "test=50", "--set", "epochs=1", "--set", "steps=1"]
SIZES = ["--sizes", "50", *QUICK]
CURVE_CASES = [
    ["nowhere", *SIZES], ["broken", *SIZES], ["flow", "right.npy", *SIZES], ["flow", "--models", "", *SIZES],
    ["flow", "--models", "no-such-net", *SIZES], ["flow", "--models", "linear,linear", *SIZES],
    ["flow", "--models", "json:dumps", *SIZES], ["flow", "--models", "no.module:net", *SIZES],
    ["vector-flow", "--models", "convnet", *SIZES],
    *(["flow", "--sizes", sizes, *QUICK] for sizes in ("many", "", "5,500", "100,100", "1e3")),
    ["flow", "--sizes", "50", "--set", "test=1"], ["flow", "--sizes", "50", "--set", "epochs=0"],
    ["flow", "--seeds", "0", *SIZES], ["flow", "--bayes-error", "2", *SIZES],
    ["flow", "--temperature", "-1", *SIZES],
    ["flow", "--temperature", "nan", *SIZES], ["flow", "--set", "seed=-1", *SIZES],
    ["flow", "--models", "linear", "--set", "device=tpu", *SIZES], ["flow", "--out", "text.npz", *SIZES],
]  # fmt: skip
SAMPLES_CASES = [
    [], ["flow"], ["nowhere", "--out", "x"], ["broken", "--out", "x"], ["lied", "--out", "x"],
    ["vector-flow", "--out", "x"], ["flow", "--temperature", "", "--out", "x"],
    ["flow", "--temperature", "0", "--out", "x"], ["flow", "--temperature", "-1,1", "--out", "x"],
    ["flow", "--temperature", "nan", "--out", "x"], ["flow", "--temperature", "inf", "--out", "x"],
    ["flow", "--temperature", "1e300", "--out", "x"], ["flow", "--temperature", "hot", "--out", "x"],
    ["flow", "--temperature", "1,1", "--out", "x"], ["flow", "-n", "0", "--out", "x"],
    ["flow", "-n", "100000", "--out", "x"], ["flow", "--seed", "-1", "--out", "x"], ["flow", "--out", "text.npz"],
]  # fmt: skip
NEAR = ["--set", "classifiers=none"]
FLOOR_CASES = [
    [], ["nothing-here"], ["cut.npz"], ["nan.npz"], ["nolabels.npz"], ["oneclass.npz"], ["few.npz"], ["pickled"],
    ["digits", "--flow", "vector-flow", *NEAR], ["digits", "--flow", "broken", *NEAR],
    ["digits", "--predictions", "right.npy", *NEAR], ["digits", "--predictions", "text.npz", *NEAR],
    ["digits", "--predictions", "right.npy", "--by-order", *NEAR],
    ["digits", "--votes", "votes-nan.npz", *NEAR], ["digits", "--votes", "votes-negative.npz", *NEAR],
    ["digits", "--votes", "votes-single.npz", *NEAR], ["digits", "--votes", "votes-shares.npz", *NEAR],
    ["digits", "--votes", "soft-sums.npz", *NEAR], ["digits", "--votes", "neither.npz", *NEAR],
    ["digits", "--votes", "flow", *NEAR], ["digits", "--set", "classifiers=tea"],
    ["digits", "--set", "confidence=0", *NEAR],
    ["digits", "--set", "confidence=nan", *NEAR], ["digits", "--seed", "-1"], ["digits", "--out", "text.npz"],
]  # fmt: skip
CASES = {
    ("flow", "fit"): FIT_CASES,
    ("flow", "synthesize"): SYNTHESIZE_CASES,
    ("flow", "judge"): JUDGE_CASES + CURVE_CASES,
    ("flow", "samples"): SAMPLES_CASES,
    ("floor",): FLOOR_CASES,
}


@pytest.mark.parametrize(
    ("command", "arguments"),
    [(command, arguments) for command, cases in CASES.items() for arguments in cases],
    ids=lambda item: " ".join(item) or "nothing",
)
def test_it_ends_with_one_sentence(command, arguments, place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    if command == ("flow", "fit") and arguments and not {"--preset", "--epochs"} & set(arguments):
        arguments = [*arguments, *TINY]
    before = sorted(item.name for item in place.iterdir())
    with pytest.raises(SystemExit) as ended:
        main([*command, *arguments])
    shown = capsys.readouterr()
    assert (ended.value.code, shown.out) == (2, "")
    told = [line for line in shown.err.splitlines() if " % " not in line]  # lines of progress
    assert len(told) == 1, shown.err
    assert told[0].startswith("hardpan: ")
    assert 20 < len(told[0]) < 500
    assert sorted(item.name for item in place.iterdir()) == before
