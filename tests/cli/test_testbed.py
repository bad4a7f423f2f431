"""The testbed commands, run as a person runs them."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.testbed.helpers import simulate_counts

from hardpan import cli, confusion, files, testbed


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["testbed", *map(str, arguments)])
    shown = capsys.readouterr()
    return int(stopped.value.code or 0), shown.out, shown.err


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    table = simulate_counts(np.linspace(0.5, 3.0, 12), seed=1)
    right = np.rint(table.scores * table.totals).astype(int)
    lines = ["model,original_correct,original_total,new_correct,new_total,group,date"]
    lines += [
        f"{'fv' if i < 3 else 'net'}_{i},{right[i, 0]},10000,{right[i, 1]},2000,"
        f"{'old' if i < 6 else 'new'},{2010 + i}"
        for i in range(12)
    ]
    path = tmp_path / "counts.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    return write_predictions(tmp_path / "said.csv", ("original", "new", "newer"))


def write_predictions(path: Path, sets: tuple[str, ...], step: tuple[int, int, int] = (1, 1, 1)) -> Path:
    """Predicted classes of four models; of the three sets every ``step``-th example."""
    rng = np.random.default_rng(0)
    rows = ["model,set,id,label,prediction"]
    for name, n, each in zip(("original", "new", "newer"), (900, 400, 300), step, strict=True):
        labels = rng.permutation(np.arange(n) % 5)
        right = rng.random((4, n)) < np.array([0.9, 0.8, 0.7, 0.6])[:, None]
        said = np.where(right, labels, (labels + 1 + rng.integers(0, 4, (4, n))) % 5)
        if name in sets:
            rows += [
                f"{model},{name},{name}-{i},{labels[i]},{said[k, i]}"
                for k, model in enumerate("abcd")
                for i in range(0, n, each)
            ]
    path.write_text("\n".join(rows))
    return path


def test_compare_prints_a_table_and_writes_a_page(counts: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "page"
    code, shown, _ = run(capsys, "compare", counts, "--exclude", "fv_0,fv_[12]", "--bootstrap", 500, "--out", out)
    assert code == 0
    assert "Models in the lines: 9 of 12." in " ".join(shown.split())
    assert "fv_0, fv_1, fv_2" in " ".join(shown.split())
    assert "points" in shown
    assert sorted(item.name for item in out.iterdir()) == ["config.json", "index.html", "report.json"]
    report = files.load(out / "report.json")
    assert report.config.exclude == ("fv_0", "fv_[12]")
    assert len(report.rows) == 12
    assert files.load(out / "config.json").bootstrap == 500


@pytest.mark.parametrize("scale", ["linear", "probit", "logit"])
def test_compare_gives_the_library_numbers_as_json(counts: Path, scale: str, capsys) -> None:
    code, shown, errors = run(capsys, "compare", counts, "--scale", scale, "--bootstrap", 500, "--json")
    assert code == 0
    assert errors == ""
    data = json.loads(shown)
    assert data["kind"] == "Comparison"
    fit = testbed.compare(counts, scale=scale, bootstrap=500).fit
    assert data["fit"]["slope"]["low"] == fit.slope.low
    assert "draws" not in data["fit"]


def test_compare_gives_groups_difficulty_and_pairs(counts: Path, predictions: Path, capsys) -> None:
    code, shown, _ = run(capsys, "compare", counts, "--sigma", 1, "--bootstrap", 500)
    assert code == 0
    assert "Difficulty of the new set" in shown
    assert "without each group" in shown
    code, shown, _ = run(capsys, "compare", counts, "--set", "groups=new", "--bootstrap", 500, "--json")
    assert json.loads(shown)["fit"]["n"] == 6
    quick = ("--bootstrap", 100)
    code, shown, _ = run(capsys, "compare", predictions, "--new", "newer", "--pairs", "all", *quick, "--json")
    assert code == 0
    assert len(json.loads(shown)["pairs"]["rows"]) == 6
    options = ("--pairs", "neighbours", "--set", "test_set=original", "--new", "new")
    code, shown, _ = run(capsys, "compare", predictions, *quick, *options)
    assert "of 3 pairs" in shown
    code, shown, errors = run(capsys, "compare", counts, "--pairs", "all", *quick)
    assert (code, shown) == (2, "")
    assert errors.count("\n") == 1


def test_explain_shows_what_the_inputs_allow(counts: Path, predictions: Path, tmp_path: Path, capsys) -> None:
    code, shown, _ = run(capsys, "explain", counts, "--set", "bootstrap=500")
    assert code == 0
    assert "per year" in shown
    code, shown, _ = run(capsys, "explain", predictions, "--new", "newer", "--only", "hardest,decompose", "--json")
    assert code == 0
    assert list(json.loads(shown)["results"]) == ["hardest", "decompose"]
    people = tmp_path / "people.csv"
    people.write_text(
        "participant,set,correct,total\n1,original,425,500\n1,new,83,100\n2,original,415,500\n2,new,81,100\n"
    )
    page = tmp_path / "page"
    code, shown, _ = run(capsys, "explain", "--people", people, "--out", page, "--set", "fraction=0.1")
    assert code == 0
    assert "85 (82–88)" in shown
    assert files.load(page / "config.json").fraction == 0.1


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--only", "smell"),
        ("--only", "humans"),
        ("--people", "none.csv"),
        ("COUNTS", "--only", "hardest"),
        ("COUNTS", "COUNTS", "COUNTS"),
        ("COUNTS", "--set", "bins=often"),
    ],
)
def test_explain_refuses_in_one_sentence(counts: Path, arguments: tuple[str, ...], capsys) -> None:
    code, shown, errors = run(capsys, "explain", *(counts if word == "COUNTS" else word for word in arguments))
    assert (code, shown) == (2, "")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    "command", ["fit", "pairs", "decompose", "shared-errors", "humans", "crossval", "strategies"]
)
def test_removed_commands_name_what_replaces_them(command: str, capsys) -> None:
    code, shown, errors = run(capsys, command, "counts.csv", "--sigma", 1)
    assert (code, shown) == (2, "")
    replacements = ("hardpan testbed compare", f"--only {command}", "reproductions.followups")
    assert any(words in errors for words in replacements)


def test_items_of_one_of_several_sets(predictions: Path, capsys) -> None:
    code, shown, _ = run(capsys, "items", predictions, "--test-set", "newer", "--irt", "rasch", "--json")
    assert code == 0
    assert len(json.loads(shown)["items"]) == 300
    for wrong in (("--test-set", "newest"), ("--test-set", "new", "--irt", "4pl"), ()):
        assert run(capsys, "items", predictions, *wrong)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scale", "log"], "scale"),
        (["--exclude", "resnet*"], "exclude"),
        (["--set", "resample=labels"], "resample"),
        (["--set", "confidence=2"], "confidence"),
        (["--metric", "top5"], "metric"),
    ],
)
def test_refusals_are_one_sentence(counts: Path, arguments: list[str], message: str, capsys) -> None:
    code, shown, errors = run(capsys, "compare", counts, *arguments)
    assert (code, shown) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1


def test_missing_files_and_unnamed_sets(predictions: Path, tmp_path: Path, capsys) -> None:
    assert "no such file" in run(capsys, "compare", tmp_path / "none.csv")[2]
    assert run(capsys, "compare", predictions, "--original", "no")[0] == 2
    code, _, errors = run(capsys, "compare", predictions, "--new", "v6")
    assert code == 2
    assert "new, newer, original" in errors
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert run(capsys, "compare", predictions, "--bootstrap", 100, "--out", blocked)[0] == 2


@pytest.mark.parametrize("command", [("compare", "--pairs", "all"), ("explain", "--only", "decompose,hardest")])
def test_a_manifest_chooses_examples(predictions: Path, tmp_path: Path, command: tuple[str, ...], capsys) -> None:
    ids = [f"original-{n}" for n in range(0, 900, 3)] + [f"new-{n}" for n in range(0, 400, 2)]
    confusion.subset_of_ids(ids, examples=1600).save(tmp_path / "hard.json")
    write_predictions(tmp_path / "part.csv", ("original", "new"), (3, 2, 1))
    settings = (*command[1:], "--set", "bootstrap=200", "--original", "original", "--new", "new", "--json")
    code, chosen, _ = run(capsys, command[0], f"{predictions}@{tmp_path}/hard.json", *settings)
    assert code == 0
    _, expected, _ = run(capsys, command[0], tmp_path / "part.csv", *settings)
    found, wanted = json.loads(chosen), json.loads(expected)
    if command[0] == "compare":
        found.pop("hashes"), wanted.pop("hashes")
        assert found.pop("notes") != wanted.pop("notes")
        assert found == wanted
        return
    found, wanted = found["results"], wanted["results"]
    assert found["hardest"]["original"] == [3 * row for row in wanted["hardest"]["original"]]
    assert found["hardest"]["new"] == [2 * row for row in wanted["hardest"]["new"]]
    assert found["decompose"]["parts"] == wanted["decompose"]["parts"]


def test_a_page_of_a_subset_names_the_manifest(tmp_path: Path, capsys) -> None:
    for name in ("original", "new"):
        write_predictions(tmp_path / f"{name}.csv", (name,))
    confusion.subset_of_ids([f"new-{n}" for n in range(100)], examples=400).save(tmp_path / "hard.json")
    sources = (tmp_path / "original.csv", f"{tmp_path}/new.csv@{tmp_path}/hard.json", "--bootstrap", 200)
    code, _, _ = run(capsys, "compare", *sources, "--out", tmp_path / "page")
    assert code == 0
    page = (tmp_path / "page/index.html").read_text()
    assert "Only the 100 of 400 examples of the new set" in page
    assert "hard.json, sha256" in page
