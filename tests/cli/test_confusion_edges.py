"""Confusion commands at the edges: one example, logits, wrong files, narrow terminals."""

import json
import re

import numpy as np
import pytest

from hardpan.cli import main

LABELS = np.arange(40) % 4


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 4, 40))
    np.savez("many.npz", probs=rows, labels=LABELS)
    np.savez("one.npz", probs=rows[:, :, :1], labels=LABELS[:1])
    np.savez("bare.npz", probs=rows)
    np.save("logits.npy", 3 * np.log(rows))
    np.save("labels.npy", LABELS)
    return tmp_path


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["confusion", *arguments])
    printed = capsys.readouterr()
    assert "nan" not in printed.out
    return ended.value.code, printed.out, printed.err


@pytest.mark.parametrize("sections", ["bands,issues", "ablation", "bands"])
def test_one_example_has_no_ranking_and_no_traceback(folder, capsys, sections):
    code, out, _ = run(capsys, "score", "one.npz", "--only", sections)
    assert code == 0
    assert not re.search(r"\b1 examples", out)


def test_an_ablation_of_equal_scores_says_so(folder, capsys):
    np.savez("even.npz", probs=np.full((2, 4, 6, 2), 0.5))
    code, out, _ = run(capsys, "score", "even.npz", "--only", "ablation")
    assert code == 0
    assert "all examples have the same score" in " ".join(out.split())


def test_logits_that_were_detected_are_reported(folder, capsys):
    code, out, _ = run(capsys, "score", "logits.npy", "--json")
    assert code == 0
    assert json.loads(out)["examples"] == 40
    assert json.loads(out)["logits"]
    assert not json.loads(run(capsys, "score", "many.npz", "--json")[1])["logits"]
    assert "logits.npy" in run(capsys, "score", "logits.npy")[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["score", "many.npz", "--set", "target=gone.npz"], "gone.npz"),
        (["score", "bare.npz", "--only", "comparison"], "--data"),
    ],
)
def test_the_sentence_names_the_option_and_the_remedy(folder, capsys, arguments, words):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert words in err
    assert "Errno" not in err
    assert "object" not in err


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_numbers_stay_whole_on_a_terminal_of_any_width(folder, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = run(capsys, "score", "many.npz", "--only", "ablation")
    assert code == 0
    assert max(map(len, out.splitlines())) <= width
    assert len(re.findall(r"\(−?\d\.\d+(?:–| to )−?\d\.\d+\)", out)) == 10  # each interval on one line
    means = re.findall(r"\b1\.[2-9]\d*\b", out.partition("fewer seeds")[2])
    assert len({len(mean) for mean in means}) == 1  # as many digits in every row
