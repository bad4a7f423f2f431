"""The confusion commands, run as a person runs them."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.confusion.planted import EPOCHS, SEEDS, trained_on_digits

from hardpan import cli, confusion, files
from hardpan.confusion import reports
from hardpan.predictions import Predictions

COMMANDS = ("score", "subset", "transfer")
REMOVED = ("bands", "issues", "ablate", "compare")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["confusion", *map(str, arguments)])
    shown = capsys.readouterr()
    return int(stopped.value.code or 0), shown.out, shown.err


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, width in (("small", 24), ("large", 64)):
        data, labels, split, probs = trained_on_digits(width)
        about = {"labels": labels, "split": split, "class_names": data.class_names}
        kept = Predictions.create(folder / name, ids=data.ids, n_classes=10, **about)
        for seed in range(SEEDS):
            for epoch in range(EPOCHS):
                kept.write(seed, epoch, probs[seed, epoch])
    np.save(folder / "bare.npy", probs)
    return folder


def counted(compute, name, calls):
    return lambda *arguments, **options: (calls.append(name), compute(*arguments, **options))[1]


def test_score_writes_a_page_scores_and_a_table_and_computes_each_part_once(runs, tmp_path, capsys, monkeypatch):
    calls = []
    for name in ("bands_of", "stability"):
        monkeypatch.setattr(reports, name, counted(getattr(reports, name), name, calls))
    out = tmp_path / "out"
    code, shown, _ = run(capsys, "score", runs / "small", "--data", "digits", "--split", "test", "--out", out)
    assert code == 0
    assert sorted(calls) == ["bands_of", "stability"]
    assert "most confusing tenth" in " ".join(shown.split())
    names = {item.name for item in out.iterdir()}
    assert names == {"config.json", "index.html", "report.json", "scores.csv", "scores"}
    saved = confusion.load_scores(out)
    assert np.array_equal(saved.values, confusion.scores(str(runs / "small")).values)
    report = files.load(out / "report.json")
    assert report.examples == int((saved.split == "test").sum())
    assert files.load(out / "config.json").split == "test"
    page = (out / "index.html").read_text()
    assert "data:image/png;base64," in page
    assert 'class="thumb"' in page
    assert "Labels that differ from the prediction" in page


def test_score_of_a_bare_array_needs_to_be_told_how_rows_meet_data(runs, capsys):
    code, shown, _ = run(capsys, "score", runs / "bare.npy", "--json")
    assert code == 0
    assert json.loads(shown)["bands"] is None
    code, _, said = run(capsys, "score", runs / "bare.npy", "--data", "digits")
    assert code == 2
    assert "by_order" in said
    code, shown, _ = run(capsys, "score", runs / "bare.npy", "--data", "digits", "--by-order", "--json")
    assert code == 0
    assert json.loads(shown)["bands"]["examples"] == 1797


def test_bands_of_each_part(runs, tmp_path, capsys):
    out = tmp_path / "out"
    only = ("--only", "bands", "--set", "edges=0,2.5,3,3.4")
    code, shown, _ = run(capsys, "score", runs / "small", *only, "--out", out, "--json")
    assert code == 0
    assert "label_issues" not in json.loads(shown)
    report = json.loads(shown)["by_split"]
    assert set(report["splits"]) == {"train", "test"}
    assert [band["low"] for band in report["splits"]["test"]["bands"]] == [0, 2.5, 3]
    assert (out / "index.html").exists()


def test_a_subset_from_scores_is_taken_by_the_other_commands(runs, tmp_path, capsys):
    run(capsys, "score", runs / "small", "--out", tmp_path / "scored")
    manifest = tmp_path / "hard.json"
    code, shown, _ = run(
        capsys,
        "subset",
        tmp_path / "scored",
        "--count",
        100,
        "--balanced",
        "--out",
        manifest,
    )
    assert code == 0
    assert "100 of 1,797 examples" in shown
    assert sorted(place.name for place in tmp_path.iterdir()) == ["hard.json", "scored"]
    code, shown, _ = run(
        capsys, "subset", tmp_path / "scored", "--count", 100, "--balanced", "--out", tmp_path / "o"
    )
    assert (tmp_path / "o" / "index.html").exists()
    assert (tmp_path / "o" / "subset.json").read_text() == manifest.read_text()
    assert set(confusion.load_subset(manifest).per_class.values()) == {10}
    code, shown, _ = run(capsys, "score", runs / "small", "--subset", manifest, "--json")
    assert json.loads(shown)["examples"] == 100
    assert sum(part["examples"] for part in json.loads(shown)["by_split"]["splits"].values()) == 100
    chosen = ("--subset", manifest, "--json")
    code, shown, _ = run(capsys, "transfer", runs / "small", runs / "large", *chosen)
    assert json.loads(shown)["pairs"][0]["tau"]["n"] == 100
    code, shown, _ = run(capsys, "score", runs / "small", "--only", "ablation,comparison", *chosen)
    assert json.loads(shown)["ablation"]["ablation"]["variants"][-1]["bands"]["examples"] == 100
    assert json.loads(shown)["comparison"]["predictors"]["examples"] == 100
    within = ("--set", f"subset={manifest}", "--json")
    code, shown, _ = run(capsys, "subset", tmp_path / "scored", "--count", 7, *within)
    harder = files.from_json(json.loads(shown)["subset"])
    assert (harder.examples, len(harder)) == (100, 7)
    assert set(harder.ids) <= set(confusion.load_subset(manifest).ids)


def test_transfer_between_models(runs, tmp_path, capsys):
    code, shown, _ = run(
        capsys, "transfer", runs / "small", runs / "large", "--split", "test", "--out", tmp_path / "o", "--json"
    )
    assert code == 0
    report = json.loads(shown)
    assert report["models"] == ["small", "large"]
    assert report["pairs"][0]["tau"]["value"] > 0.3
    assert set(report["targets"]["targets"]) == {"small", "large"}
    assert [model["name"] for model in report["accuracy"]["models"]] == ["large", "small"]
    assert (tmp_path / "o" / "index.html").exists()


def test_fewer_seeds_and_epochs_against_a_target_and_other_scores(runs, tmp_path, capsys):
    target = ("--set", f"target={runs / 'large'}", "--split", "test")
    out = ("--only", "ablation,comparison", "--out", tmp_path / "o")
    code, shown, _ = run(capsys, "score", runs / "small", *target, *out)
    assert code == 0
    for name in ("confusion score", "AUM", "forgetting", "mutual information", "disagreement"):
        assert name in " ".join(shown.split())
    assert "Definitions" not in shown
    report = files.load(tmp_path / "o" / "report.json")
    assert report.bands is None
    assert report.issues is None
    variants = report.ablation.ablation.variants
    assert [(item.seeds, len(item.epochs)) for item in variants][-1] == (SEEDS, EPOCHS)
    assert variants[-1].bands.examples == int((trained_on_digits()[2] == "test").sum())
    assert report.ablation.ablation.target == "large"
    assert len(report.comparison.predictors.rows) == 11


def test_definitions_have_room_on_the_page(runs, tmp_path, browser, capsys):
    run(capsys, "score", runs / "small", "--only", "comparison", "--split", "test", "--out", tmp_path / "o")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((tmp_path / "o" / "index.html").as_uri())
    page.evaluate("document.querySelectorAll('details.fold').forEach(item => item.open = true)")
    cell = page.locator("td", has_text="never right counts as all").bounding_box()
    assert cell["width"] > 300
    assert cell["height"] < 60  # two lines at most
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize("command", REMOVED)
def test_a_removed_command_says_what_replaces_it(command, capsys):
    code, _, told = run(capsys, command, "run", "--split", "test")
    assert code == 2
    assert "hardpan confusion score --only" in told


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command, capsys):
    code, shown, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"hardpan confusion {command}" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["score", "nowhere"], "nowhere"),
        (["score", "{runs}/small", "--epochs", "x"], "--epochs must"),
        (["score", "{runs}/small", "--epochs", "99,"], "--epochs"),
        (["score", "{runs}/small", "--split", "valid"], "--split must"),
        (["score", "{runs}/small", "--data", "nothing"], "dataset 'nothing'"),
        (["score", "{runs}/small", "--set", "backend=fog"], "backend"),
        (["score", "{runs}/small", "--set", "edges=0,1"], "edges"),
        (["score", "{runs}/small", "--only", "everything"], "--only"),
        (["score", "{runs}/bare.npy", "--only", "bands"], "labels"),
        (["subset", "{runs}/small"], "threshold"),
        (["transfer", "{runs}/small"], "PREDICTIONS"),
        (["transfer", "{runs}/small", "{runs}/large", "--names", "a,a"], "--names"),
        (["transfer", "{runs}/small", "{runs}/large", "--names", "a,"], "--names"),
        (["score", "{runs}/small", "--only", "ablation", "--set", "fractions=2"], "fractions"),
        (["score", "{runs}/small", "--only", "ablation", "--set", "target={runs}/bare.npy"], "bare.npy"),
        (["score", "{runs}/small", "--set", "of=nobody"], "of"),
        (["subset", "{runs}/small", "--count", "5", "--out", "{runs}/bare.npy/x.json"], "cannot be written"),
        (["score", "{runs}/small", "--out", "/proc/nothing"], "cannot be written"),
        (["score", "{runs}/bare.npy", "--only", "comparison"], "labels"),
        (["score", "{runs}/small", "--split", "none"], "split"),
    ],
)
def test_refusals_are_one_sentence(runs, arguments, said, capsys):
    code, shown, told = run(capsys, *(text.replace("{runs}", str(runs)) for text in arguments))
    assert code == 2
    assert said in told
    assert "Traceback" not in told
    assert not shown


def test_the_page_in_a_browser(runs, tmp_path, browser, capsys):
    run(capsys, "score", runs / "large", "--data", "digits", "--split", "test", "--out", tmp_path / "o")
    page = browser.new_page(viewport={"width": 320, "height": 800})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"file://{tmp_path}/o/index.html")
    page.evaluate("document.querySelectorAll('details.fold').forEach(item => item.open = true)")
    assert page.locator(".thumb").count() > 100
    page.locator(".thumb summary").first.click()
    assert "bits" in page.locator(".thumb[open] dl").first.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert errors == []
    page.close()
