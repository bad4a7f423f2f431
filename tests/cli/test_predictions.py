import json

import numpy as np
import pytest
from tests.predictions.made import labels, logits, names, probabilities

from hardpan.cli import main
from hardpan.confusion import subset_of_ids
from hardpan.predictions import Predictions

N, C = 50, 4


@pytest.fixture
def hardpan(capsys, monkeypatch):
    """Run a command here; gives what it printed on stdout and on stderr."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments, code=0):
        with pytest.raises(SystemExit) as ended:
            main(["predictions", *map(str, arguments)])
        said = capsys.readouterr()
        assert ended.value.code == code, said.err
        return said

    return run


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "probs.npy", probabilities(3, 2, N, C))
    np.save(tmp_path / "labels.npy", labels(N, C))
    (tmp_path / "ids.txt").write_text("\n".join(names(N)) + "\n")
    (tmp_path / "classes.csv").write_text("class\ncat\ndog\nemu\nfox\n")
    return tmp_path


def test_the_whole_way(files, hardpan):
    run = files / "run"
    names = ("--set", f"class_names={files / 'classes.csv'}")
    beside = ("--labels", files / "labels.npy", "--ids", files / "ids.txt", *names)
    said = hardpan("import", files / "probs.npy", *beside, "--out", run).out
    assert "50 examples × 4 classes, seeds 0, 1, 2, epochs 0, 1" in said
    assert "probabilities" in said
    information = json.loads(hardpan("check", run, "--json").out)
    assert information["seeds"] == [0, 1, 2]
    assert information["class_names"] == ["cat", "dog", "emu", "fox"]
    assert "0, 1, 2" in hardpan("check", run).out
    assert json.loads(hardpan("check", run, "--json").out)["ok"]
    hardpan("export", run, files / "out.parquet", "--seeds", "1", "--epochs", "0,1")
    hardpan("import", files / "out.parquet", "--out", files / "other", "--seeds", "9")
    merged = hardpan("merge", run, files / "other", "--out", files / "all", "--json")
    assert json.loads(merged.out)["seeds"] == [0, 1, 2, 9]
    found = Predictions.open(files / "all")
    assert np.array_equal(found.read(9, 1), found.read(1, 1))
    assert np.array_equal(found.read(9, 1), probabilities(3, 2, N, C)[1, 1])


def test_damage_is_named_and_gives_exit_code_2(files, hardpan):
    hardpan("import", files / "probs.npy", "--out", files / "run")
    shard = files / "run/probabilities/2/1/c/0/0"
    shard.write_bytes(shard.read_bytes()[:50])
    done = hardpan("check", files / "run", code=2)
    assert "truncated" in done.out
    assert "probabilities/2/1/c/0/0" in done.out
    assert "NOT verified" in done.out
    hardpan("check", files / "run", "--drop", code=2)
    assert "verified" in hardpan("check", files / "run").out


def test_logits_said_and_rows_refused(files, hardpan):
    np.save(files / "z.npy", logits(N, C))
    done = hardpan("import", files / "z.npy", "--outputs", "logits", "--out", files / "z", "--json")
    assert json.loads(done.out)["outputs"] == "logits"
    done = hardpan("import", files / "z.npy", "--outputs", "probabilities", "--out", files / "p", code=2)
    assert "row-0000000" in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "nowhere"), "nowhere"),
        (("import", "none.npy", "--out", "x"), "none.npy"),
        (("import", "none.txt", "--out", "x"), "none.txt"),
        (("merge", "nowhere", "--out", "x"), "two or more"),
        (("export", "nowhere", "x.npz"), "nowhere"),
        (("export", "nowhere", "x.npz", "--seeds", "one"), "--seeds"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path, hardpan, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = hardpan(*arguments, code=2)
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("import", "p.npy", "--out", ""), "out"),
        (
            ("import", "p.npy", "--out", "new", "--seeds", "2147483648,3,4"),
            "seeds must",
        ),
        (("merge", "run", "third", "--out", "./run/"), "out"),
        (("merge", "run@h.json", "third", "--out", "link"), "out"),
        (("export", "run", "new", "--seeds", "0"), "new"),
        (("export", "run", "new.npz", "--seeds", "0,0"), "seeds must"),
        (("export", "run", "new.npz", "--epochs", "1,1"), "epochs must"),
        (("export", "run", "new.npz", "--seeds", "9"), "seed 9"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(tmp_path, hardpan, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    np.save("p.npy", probabilities(3, 2, N, C))
    hardpan("import", "p.npy", "--out", "run")
    hardpan("import", "p.npy", "--seeds", "3,4,5", "--out", "third")
    (tmp_path / "link").symlink_to("run")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    done = hardpan(*arguments, code=2)
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_a_subset_is_exported_and_described(files, hardpan):
    run, manifest = files / "run", files / "hard.json"
    hardpan("import", files / "probs.npy", "--ids", files / "ids.txt", "--out", run)
    subset_of_ids(["image-40", "image-7"], examples=N).save(manifest)
    said = json.loads(hardpan("export", f"{run}@{manifest}", files / "hard.npz", "--json").out)
    assert said["examples"] == 2
    assert np.array_equal(Predictions.open(files / "hard.npz").to_array(), probabilities(3, 2, N, C)[:, :, [7, 40]])
    assert json.loads(hardpan("check", f"{run}@{manifest}", "--json").out)["examples"] == 2
    refused = hardpan("export", f"{run}@{files / 'labels.npy'}", files / "no.npz", code=2)
    assert "labels.npy" in refused.err
    assert not (files / "no.npz").exists()


def test_epochs_that_not_all_seeds_have_are_named_when_left_out(tmp_path, hardpan):
    made = Predictions.create(tmp_path / "run", ids=names(N), n_classes=C)
    for seed, count in ((0, 5), (1, 2)):
        for epoch in range(count):
            made.write(seed, epoch, probabilities(N, C, seed=10 * seed + epoch))
    done = hardpan("export", tmp_path / "run", tmp_path / "a.npz", "--json")
    assert json.loads(done.out)["left_out"] == [2, 3, 4]
    assert json.loads(done.out)["epochs"] == [0, 1]
    assert "2, 3, 4" in hardpan("export", tmp_path / "run", tmp_path / "b.npz").out
    for number, chosen in enumerate((("--seeds", "0"), ("--epochs", "0"))):
        done = hardpan("export", tmp_path / "run", tmp_path / f"{number}.npz", *chosen, "--json")
        assert json.loads(done.out)["left_out"] == []


def test_strange_files_beside_the_predictions_are_named(files, hardpan):
    hardpan("import", files / "probs.npy", "--out", files / "run")
    (files / "run/notes.txt").write_text("mine")
    done = hardpan("check", files / "run", code=2)
    assert "foreign" in done.out
    assert "notes.txt" in done.out
    assert "1 problem" in done.out
