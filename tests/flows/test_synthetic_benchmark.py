"""Synthetic benchmarks: what is written is what was drawn, and the truth beside it is true."""

import json

import numpy as np
import pytest
from tests.flows.small import random_flow, three_digits
from tests.refusals import refused

from hardpan import files, flows
from hardpan.data.dataset import Dataset, content_ids
from hardpan.errors import HardpanError, InputError
from hardpan.estimates import Estimate
from hardpan.flows import scaling, synthetic_benchmark


@pytest.fixture(scope="module")
def flow():
    return flows.fit(three_digits(), flows.FlowConfig(preset="tiny", epochs=2))


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    x = (rng.normal(size=(400, 4)) + 2 * np.eye(3, 4)[labels]).astype(np.float32)
    data = Dataset("blobs", x, content_ids(x), labels, ("a", "b", "c"))
    return flows.fit(data, flows.FlowConfig(preset="tiny", epochs=2))


@pytest.mark.parametrize("format", ["npz", "npz8"])
def test_files_hold_the_draw_and_the_manifest_its_truth(flow, tmp_path, format):
    wanted = {"bayes_error": 0.15} if format == "npz" else {"temperature": 0.8}
    made = flows.synthesize(flow, tmp_path, n=900, format=format, seed=3, **wanted)
    data = Dataset.open(tmp_path / made.data)
    places = {str(name): row for row, name in enumerate(data.ids)}
    order = [places[str(name)] for name in made.ids]
    assert np.array_equal(data.labels[order], made.labels)
    assert np.array_equal(data.split[order], made.split)
    assert len(made.test) == round(900 / 7)
    assert format != "npz" or made.bayes_error.value == pytest.approx(0.15, rel=0.01)
    assert made.posterior.shape == (900, 3)
    assert made.posterior.sum(axis=1) == pytest.approx(np.ones(900))
    if format == "npz":
        assert made.rounding is None
        again = flow.posterior(data.x[order], temperature=made.temperature)
        assert np.abs(again - made.posterior).max() < 1e-2  # float32 files, through the flow and back
        assert (again.argmax(axis=1) == made.posterior.argmax(axis=1)).mean() > 0.995
    else:
        assert data.x.dtype == np.uint8
        assert 0 <= made.rounding.value < 0.9  # 17 levels, and values outside them, lose much
        assert made.floor.value == pytest.approx(made.bayes_error.value + made.rounding.value)
    assert not (tmp_path / synthetic_benchmark.UNFINISHED).exists()


def test_the_manifest_is_read_back_and_a_second_run_reads_it(flow, tmp_path):
    made = flows.synthesize(flow, tmp_path, temperature=1.3, n=200)
    written = (tmp_path / "data.npz").stat().st_mtime_ns
    again = flows.synthesize(flow, tmp_path, temperature=1.3, n=200)
    assert (tmp_path / "data.npz").stat().st_mtime_ns == written
    assert np.array_equal(again.posterior, made.posterior)
    assert again.bayes_error == made.bayes_error
    with pytest.raises(InputError, match=tmp_path.name):
        flows.synthesize(flow, tmp_path, temperature=1.3, n=201)


def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(flow, tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic_benchmark, "BLOCK", 1024)
    whole = flows.synthesize(flow, tmp_path / "whole", n=3000)

    def stop(step, fraction):
        if fraction > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flows.synthesize(flow, tmp_path / "stopped", n=3000, progress=stop)
    assert not (tmp_path / "stopped" / synthetic_benchmark.MANIFEST).exists()
    resumed = flows.synthesize(flow, tmp_path / "stopped", n=3000)
    assert resumed.files == whole.files
    assert (tmp_path / "whole/data.npz").read_bytes() == (tmp_path / "stopped/data.npz").read_bytes()


def test_a_sample_that_contradicts_its_floor_is_not_kept():
    posterior = np.tile([0.9, 0.1], (5000, 1))
    labels = (np.random.default_rng(0).random(5000) < 0.1).astype(int)
    told = synthetic_benchmark.check_benchmark_error(posterior, labels, Estimate(0.1, 0.0, 0.1, 0.1))
    assert told.low < 0.1 < told.high
    with pytest.raises(HardpanError, match=r"\b20\b"):
        synthetic_benchmark.check_benchmark_error(posterior, labels, Estimate(0.2, 0.0, 0.2, 0.2))


def test_a_broken_flow_leaves_nothing_behind(flow, tmp_path):
    """A flow whose labels have nothing to do with its draws: the check sees it, and no piece is kept."""

    class Mislabelled(flows.Flow):
        def _draw(self, rng, temperature):
            top, rest, labels = super()._draw(rng, temperature)
            return top, rest, rng.permutation(labels)

    broken = Mislabelled(flow.network, flow.record)
    with pytest.raises(HardpanError):
        flows.synthesize(broken, tmp_path / "out", temperature=0.3, n=400)
    assert not (tmp_path / "out").exists()


def test_what_was_changed_afterwards_is_told(flow, tmp_path):
    flows.synthesize(flow, tmp_path, n=100)
    content = (tmp_path / "data.npz").read_bytes()
    (tmp_path / "data.npz").write_bytes(content[:-1] + b"x")
    with pytest.raises(InputError, match=r"manifest\.json"):
        flows.synthesize(flow, tmp_path, n=100)
    (tmp_path / "data.npz").unlink()
    with pytest.raises(InputError, match=r"manifest\.json"):
        flows.synthesize(flow, tmp_path, n=100)


def test_a_damaged_piece_is_named(flow, tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic_benchmark, "BLOCK", 1024)

    def stop(step, fraction):
        if fraction > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flows.synthesize(flow, tmp_path, n=3000, progress=stop)
    piece = tmp_path / synthetic_benchmark.UNFINISHED / "000000.npz"
    piece.write_bytes(piece.read_bytes()[:100])
    with pytest.raises(InputError, match=r"000000\.npz"):
        flows.synthesize(flow, tmp_path, n=3000)
    piece.unlink()
    assert len(flows.synthesize(flow, tmp_path, n=3000).labels) == 3000


def test_the_floor_of_rounded_files_lies_where_the_cost_says():
    """Four pixels of four levels: there are 256 files, and the best decision on each can be counted."""
    flow = random_flow(np.random.default_rng(0).integers(0, 4, (200, 2, 2)).astype(np.uint8), levels=1, steps=2)
    drawn = flow.sample_with_posterior(40_000, temperature=0.7, seed=1)
    cells = scaling.quantize_to_bytes(drawn.x, 4).reshape(-1, 4) @ [64, 16, 4, 1]
    found, mass = np.zeros((256, 3)), np.bincount(cells, minlength=256)
    np.add.at(found, cells, drawn.posterior)
    rounded = float((mass - found.max(axis=1)).sum() / len(cells))
    exact = float((1 - drawn.posterior.max(axis=1)).mean())
    cost = synthetic_benchmark.benchmark_rounding_cost(
        flow, drawn.x[:8000], drawn.posterior[:8000], temperature=0.7
    )
    assert rounded > exact + 0.01  # rounding to so few levels does lose something
    assert exact + cost.high > rounded
    assert cost.value < 2 * (rounded - exact)  # and the bound is not far off


def test_vectors_come_as_npz_only(vectors, tmp_path):
    made = flows.synthesize(vectors, tmp_path, bayes_error=0.2, n=300)
    assert Dataset.open(tmp_path / made.data).x.shape == (300, 4)
    with pytest.raises(InputError) as caught:
        flows.synthesize(vectors, tmp_path / "bytes", n=300, format="npz8")
    assert caught.value.argument == "format"


def test_an_unknown_format_is_refused_before_anything_is_drawn(flow, tmp_path):
    with pytest.raises(InputError) as caught:
        flows.synthesize(flow, tmp_path / "out", n=300, format="png")
    assert caught.value.argument == "format"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"bayes_error": 1.5}, "bayes_error"),
        ({"n": 3}, "n"),
        ({"test_fraction": 0}, "test_fraction"),
    ],
)
def test_settings_are_checked_before_any_work(changes, argument):
    with refused(argument):
        flows.SynthesizeConfig(**changes)


def test_a_folder_without_a_manifest_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"manifest\.json"):
        flows.read_benchmark(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps(files.to_json(Estimate(0.1, 0, 0.1, 0.1))))
    with pytest.raises(InputError, match="benchmark"):
        flows.read_benchmark(tmp_path)
