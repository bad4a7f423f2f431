"""The commands over a flow: synthesize, judge and samples, as people type them."""

import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from tests.flows.small import three_digits
from typer.testing import CliRunner

from hardpan import files, flows
from hardpan.cli import app, main


@pytest.fixture(scope="module")
def flow(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flow")
    flows.fit(three_digits(), flows.FlowConfig(preset="tiny", epochs=2), out=folder)
    return str(folder)


def run(*arguments):
    done = CliRunner().invoke(app, [str(item) for item in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def test_a_benchmark_is_made_and_classifiers_are_judged_on_it(flow, tmp_path):
    folder = tmp_path / "synthetic"
    told = run("flow", "synthesize", flow, "--temperature", 0.7, "-n", 400, "--out", folder)
    assert "Bayes error" in told
    again = files.from_json(
        json.loads(run("flow", "synthesize", flow, "--temperature", 0.7, "-n", 400, "--out", folder, "--json"))
    )
    made = flows.read_benchmark(folder)
    assert again.bayes_error == made.bayes_error
    test = made.test
    np.savez(tmp_path / "best.npz", probs=made.posterior[test], ids=made.ids[test])
    best = files.from_json(json.loads(run("flow", "judge", folder, tmp_path / "best.npz", "--json")))
    assert best.excess.value == pytest.approx(0, abs=1e-6)
    uniform = np.full((len(test), 3), 1 / 3, dtype=np.float32)
    np.save(tmp_path / "uniform.npy", uniform)
    told = run("flow", "judge", folder, tmp_path / "uniform.npy", "--by-order", "--out", tmp_path / "page")
    assert re.search(r"\d points \(\d+–\d+\) could be gained", " ".join(told.split()))
    page = (tmp_path / "page" / "index.html").read_text()
    assert "true probability of its label" in page


def test_rows_without_ids_are_judged_by_order_only_where_that_is_said(flow, tmp_path, capsys):
    folder = tmp_path / "synthetic"
    run("flow", "synthesize", flow, "--temperature", 0.7, "-n", 400, "--out", folder)
    made = flows.read_benchmark(folder)
    np.save(tmp_path / "test.npy", made.posterior[made.test])
    np.save(tmp_path / "all.npy", made.posterior)
    np.savez(tmp_path / "turned.npz", probs=made.posterior[::-1], ids=made.ids[::-1])
    np.save(tmp_path / "more.npy", made.posterior[:-1])
    for given in (["test.npy", "--by-order"], ["all.npy", "--by-order"], ["turned.npz"]):
        best = files.from_json(json.loads(run("flow", "judge", folder, tmp_path / given[0], *given[1:], "--json")))
        assert best.excess.value == pytest.approx(0, abs=1e-6)
    refused = [(["test.npy"], "by_order"), (["more.npy", "--by-order"], "399 rows")]
    for given, words in refused:
        with pytest.raises(SystemExit) as ended:
            main(["flow", "judge", str(folder), str(tmp_path / given[0]), *given[1:]])
        assert ended.value.code == 2
        assert words in capsys.readouterr().err


def test_a_curve_and_samples_have_pages(flow, tmp_path):
    told = run(
        "flow", "judge", flow, "--models", "linear", "--sizes", "40,120", "--set", "test=200", "--set", "epochs=1",
        "--set", "steps=5", "--temperature", 0.7, "--set", "device=cpu", "--out", tmp_path / "curve",
    )  # fmt: skip
    assert "linear" in told
    assert "Learning curves" in (tmp_path / "curve" / "index.html").read_text()
    run("flow", "samples", flow, "--temperature", "0.3,0.8", "-n", 4, "--out", tmp_path / "samples")
    page = (tmp_path / "samples" / "index.html").read_text()
    assert page.count('<details class="thumb"') == 8
    assert "data-pick" in page
    assert "Bayes error during its training" in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["flow", "synthesize", "no-such-flow", "--out", "x"],
            "no-such-flow",
        ),
        (["flow", "judge", "nowhere", "p.npz"], "manifest.json"),
        (["flow", "judge", "mnist", "--sizes", "many"], "--sizes"),
        (["flow", "curve", "mnist"], "flow judge FLOW --sizes"),
        (["flow", "samples", "mnist", "--temperature", "hot", "--out", "x"], "--temperature"),
    ],
)
def test_bad_input_ends_with_a_sentence(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert "Traceback" not in shown


def test_the_zoo_is_what_its_cards_say():
    for name in ("mnist", "fashion-mnist"):
        found = flows.load(name)
        fitted = found.record.fitted
        assert fitted["dataset"] == name
        drawn = found.sample_with_posterior(64, temperature=0.5, seed=0)
        assert np.isfinite(drawn.x).all()
        again = found.posterior(drawn.x, temperature=0.5)
        assert np.abs(again - drawn.posterior).max() < 1e-2
        with torch.no_grad():
            there = found.network.latents(torch.from_numpy(drawn.x[..., None]))
            back = found.network.data(there.top, there.rest).numpy()
        assert np.abs(back - drawn.x).max() < 1e-4 * found.grey_levels
        # Cool samples are likely under the flow: their NLL lies below that of real test images.
        assert found.nll(drawn.x, drawn.y).value < fitted["test_nll"]
        assert 0 < found.bayes_error().value < 0.1


def kill_once(command, begun):
    """Start a command, end it by SIGKILL as soon as ``begun()`` says that part of its work is on disk."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not begun():
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -9, "it ended before it could be killed"


@pytest.mark.soak
def test_a_killed_synthesis_goes_on_to_the_same_bytes(flow, tmp_path):
    def command(place):
        options = ["--temperature", "0.7", "-n", "40000", "--format", "npz8", "--out", str(place)]
        return [sys.executable, "-m", "hardpan", "flow", "synthesize", flow, *options]

    subprocess.run(command(tmp_path / "whole"), capture_output=True, check=True)
    cut = tmp_path / "cut"
    for number in (1, 4):
        kill_once(command(cut), lambda number=number: len(list(cut.glob(".parts/0*[0-9].npz"))) >= number)
        assert not (cut / "manifest.json").exists()
    subprocess.run(command(cut), capture_output=True, check=True)
    assert (cut / "data.npz").read_bytes() == (tmp_path / "whole" / "data.npz").read_bytes()
    whole, again = flows.read_benchmark(tmp_path / "whole"), flows.read_benchmark(cut)
    np.testing.assert_array_equal(again.posterior, whole.posterior)
    assert again.rounding == whole.rounding
    assert not (cut / ".parts").exists()


@pytest.mark.soak
def test_a_killed_curve_loses_at_most_one_training(flow, tmp_path):
    def command(place):
        options = ["--models", "linear,mlp", "--sizes", "100,200,400", "--temperature", "0.7", "--json"]
        for setting in ("test=300", "steps=60", "epochs=1", "device=cpu"):
            options += ["--set", setting]
        options += ["--out", str(place)]
        return [sys.executable, "-m", "hardpan", "flow", "judge", flow, *options]

    whole = subprocess.run(command(tmp_path / "whole"), capture_output=True, check=True).stdout
    cut = tmp_path / "cut"
    kill_once(command(cut), lambda: len(list(cut.glob("runs/*.json"))) >= 2)
    kept = {item.name: item.stat().st_mtime_ns for item in cut.glob("runs/*.json")}
    again = subprocess.run(command(cut), capture_output=True, check=True).stdout
    assert json.loads(again)["points"] == json.loads(whole)["points"]
    assert all((cut / "runs" / name).stat().st_mtime_ns == moment for name, moment in kept.items())
