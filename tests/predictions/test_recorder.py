import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from hardpan.errors import InputError
from hardpan.predictions import Predictions
from hardpan.predictions.recorder import Recorder

N, C = 120, 5
IDS = np.array([f"image-{row}" for row in range(N)])
LABELS = np.random.default_rng(1).integers(0, C, N)


def logits(seed, epoch, n=N):
    return np.random.default_rng([seed, epoch]).normal(scale=2.0, size=(n, C)).astype(np.float32)


def expected(seed, epoch):
    return softmax(logits(seed, epoch).astype(np.float64), axis=1)


def batches(order, size=32):
    return [order[start : start + size] for start in range(0, len(order), size)]


FORMS = {
    "tensor": lambda z: torch.from_numpy(z),
    "array": lambda z: z,
    "float64": lambda z: z.astype(np.float64),
    "probabilities": lambda z: torch.softmax(torch.from_numpy(z), dim=1),
    "needs gradient": lambda z: torch.from_numpy(z).requires_grad_(),
    "list": lambda z: z.tolist(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("by", ["index", "ids", "order"])
def test_batches_in_any_order_and_form_are_recorded(tmp_path, form, by):
    order = np.arange(N) if by == "order" else np.random.default_rng(2).permutation(N)
    with Recorder(tmp_path / "run", ids=IDS, n_classes=C, labels=LABELS, block=50) as recorder:
        for seed in (0, 1):
            for epoch in (0, 1):
                for rows in batches(order):
                    given = FORMS[form](logits(seed, epoch)[rows])
                    if by == "order":
                        recorder.record(given, seed=seed, epoch=epoch, labels=LABELS[rows])
                    elif by == "ids":
                        recorder.record(given, ids=IDS[rows].tolist(), seed=seed, epoch=epoch)
                    else:
                        recorder.record(given, torch.from_numpy(rows), seed=seed, epoch=epoch)
    assert recorder.outputs == ("probabilities" if form == "probabilities" else "logits")
    found = Predictions.open(tmp_path / "run")
    assert (found.seeds, found.epochs) == ((0, 1), (0, 1))
    for seed in (0, 1):
        for epoch in (0, 1):
            assert np.allclose(found.read(seed, epoch), expected(seed, epoch), rtol=6e-4, atol=1e-7)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_batches_on_a_gpu_are_recorded(tmp_path):
    order = np.random.default_rng(2).permutation(N)
    with Recorder(tmp_path / "run", ids=IDS, n_classes=C, block=50) as recorder:
        for epoch in (0, 1):
            for rows in batches(order, 7):
                z = torch.from_numpy(logits(0, epoch)[rows]).cuda()
                recorder.record(z, torch.from_numpy(rows).cuda(), epoch=epoch)
                z.fill_(torch.nan)  # what was handed over may be used again at once
            assert recorder.done(epoch=epoch)
    found = Predictions.open(tmp_path / "run")
    for epoch in (0, 1):
        assert np.allclose(found.read(0, epoch), expected(0, epoch), rtol=6e-4, atol=1e-7)


@settings(max_examples=20)
@given(st.data())
def test_any_cut_into_batches_and_blocks_gives_the_same(tmp_path_factory, data):
    order = data.draw(st.permutations(range(30)))
    cuts = sorted(data.draw(st.sets(st.integers(1, 29))))
    block, memory = data.draw(st.integers(1, 40)), data.draw(st.sampled_from([0, 100, 2**30]))
    path = tmp_path_factory.mktemp("any") / "run"
    z = logits(0, 0, 30)
    told = {"outputs": "logits", "dtype": "float32"}  # said, since a first batch of one row may look like neither
    with Recorder(path, ids=IDS[:30], n_classes=C, block=block, memory=memory, **told) as recorder:
        for rows in np.split(np.array(order), cuts):
            recorder.record(z[rows], rows, epoch=0)
    assert np.allclose(Predictions.open(path).read(0, 0), softmax(z, axis=1), rtol=1e-5)


def test_an_epoch_is_committed_when_its_last_batch_is(tmp_path):
    recorder = Recorder(tmp_path / "run", ids=IDS, n_classes=C, block=50)
    recorder.record(logits(0, 0)[:100], epoch=0)
    assert not Predictions.open(tmp_path / "run").committed(0, 0)
    recorder.record(logits(0, 0)[100:], epoch=0)
    assert Predictions.open(tmp_path / "run").committed(0, 0)
    recorder.close()


def test_a_run_goes_on_at_the_missing_epoch_and_changes_nothing_before_it(tmp_path):
    with Recorder(tmp_path / "run", ids=IDS, n_classes=C, config={"lr": 0.1}) as recorder:
        for epoch in range(3):
            recorder.record(logits(0, epoch), epoch=epoch)
    before = Predictions.open(tmp_path / "run").to_array()
    with Recorder(tmp_path / "run", ids=IDS, n_classes=C, config={"lr": 0.1}) as recorder:
        assert recorder.next_epoch() == 3
        assert recorder.next_epoch(seed=1) == 0
        assert recorder.done(epoch=2)
        for epoch in range(5):
            recorder.record(logits(7, epoch), epoch=epoch)
    found = Predictions.open(tmp_path / "run")
    assert found.epochs == (0, 1, 2, 3, 4)
    assert np.array_equal(found.to_array(epochs=(0, 1, 2)), before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": IDS[::-1]}, "ids"),
        ({"n_classes": C + 1}, "classes"),
        ({"labels": LABELS[::-1].copy()}, "labels"),
        ({"dtype": "float32"}, "dtype"),
        ({"config": {"lr": 0.2}}, "lr"),
    ],
)
def test_a_store_of_something_else_is_not_gone_on_with(tmp_path, change, message):
    given = {"ids": IDS, "n_classes": C, "labels": LABELS, "config": {"lr": 0.1}}
    Recorder(tmp_path / "run", **given).close()
    Recorder(tmp_path / "run", **given).close()
    with pytest.raises(InputError, match=message):
        Recorder(tmp_path / "run", **given | change)


def test_examples_that_are_left_out_are_named(tmp_path):
    recorder = Recorder(tmp_path / "run", ids=IDS, n_classes=C)
    recorder.record(logits(0, 0)[:117], epoch=0)
    with pytest.raises(InputError, match="image-117"):
        recorder.record(logits(0, 1), epoch=1)
    recorder = Recorder(tmp_path / "other", ids=IDS, n_classes=C)
    recorder.record(logits(0, 0)[:117], epoch=0)
    with pytest.raises(InputError, match=r"\b3\D+120\b"):
        recorder.close()


def test_an_error_in_the_loop_is_not_hidden_by_the_recorder(tmp_path):
    def loop():
        with Recorder(tmp_path / "run", ids=IDS, n_classes=C) as recorder:
            recorder.record(logits(0, 0)[:10], epoch=0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"outputs": logits(0, 0)[:, :3]}, "outputs"),
        ({"index": np.arange(3)}, "index"),
        ({"index": np.arange(N) + 1}, "index"),
        ({"index": np.zeros(N, dtype=int)}, "image-0"),
        ({"ids": ["nobody"] * N}, "nobody"),
        ({"index": np.arange(N), "ids": IDS}, "index"),
        ({"labels": LABELS[::-1].copy()}, "labels"),
        ({"outputs": np.full((N, C), np.nan)}, "outputs"),
        ({"outputs": np.where(np.arange(N)[:, None] == 7, np.nan, logits(0, 0))}, "image-7"),
    ],
)
def test_batches_that_cannot_be_right_are_refused(tmp_path, call, message):
    recorder = Recorder(tmp_path / "run", ids=IDS, n_classes=C, labels=LABELS)
    with pytest.raises(InputError, match=message):
        recorder.record(**{"outputs": logits(0, 0), "epoch": 0} | call)
    assert not Predictions.open(tmp_path / "run").committed(0, 0)


MASKED = np.where(np.arange(C) == 3, -np.inf, logits(0, 0))


@pytest.mark.parametrize("said", ["auto", "logits"])
@pytest.mark.parametrize("form", [np.asarray, torch.from_numpy])
def test_masked_classes_have_no_probability(tmp_path, form, said):
    with Recorder(tmp_path / "run", ids=IDS, n_classes=C, dtype="float32", outputs=said) as recorder:
        recorder.record(form(MASKED), epoch=0)
    found = Predictions.open(tmp_path / "run").read(0, 0)
    assert (found[:, 3] == 0).all()
    assert np.allclose(found, softmax(MASKED.astype(np.float64), axis=1), atol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("bad", [[np.nan, 0, 0, 0, 0], [np.inf, 0, 0, 0, 0], [-np.inf] * 5])
def test_logits_are_refused_as_logits(tmp_path, form, bad):
    given = logits(0, 0)
    given[[7, 9]] = bad
    recorder = Recorder(tmp_path / "run", ids=IDS, n_classes=C, outputs="logits")
    with pytest.raises(InputError, match="image-7"):
        recorder.record(form(given), epoch=0)


def test_rows_are_refused_with_the_batch_that_brings_them(tmp_path):
    """Long before their shard is full; the rows are not taken, so that they can be given again, mended."""
    given = softmax(logits(0, 0).astype(np.float64), axis=1)
    wrong, rows = given[40:60].copy(), np.arange(40, 60)
    wrong[3] *= 1.5
    with Recorder(tmp_path / "run", ids=IDS, n_classes=C, outputs="probabilities", block=N) as recorder:
        recorder.record(given[:40], np.arange(40), epoch=0)
        with pytest.raises(InputError, match="image-43"):
            recorder.record(wrong, rows, epoch=0)
        recorder.record(given[40:60], rows, epoch=0)
        recorder.record(given[60:], np.arange(60, N), epoch=0)
    assert np.array_equal(Predictions.open(tmp_path / "run").read(0, 0), given.astype(np.float16))


def test_a_recorder_says_where_and_what_it_records(tmp_path):
    where = str(tmp_path / "run")
    recorder = Recorder(where, ids=IDS, n_classes=C)
    size = f"Recorder({where!r}, examples=120, classes=5, outputs="
    assert repr(recorder) == f"{size}'auto', committed='nothing')"
    for seed, epoch in ((0, 0), (0, 1), (4, 0)):
        recorder.record(logits(seed, epoch), seed=seed, epoch=epoch)
    assert repr(recorder) == f"{size}'logits', committed='seed 0: 2 epochs, seed 4: 1 epoch')"


def test_without_labels_in_order_a_shuffled_loader_is_noticed(tmp_path):
    recorder = Recorder(tmp_path / "run", ids=IDS, n_classes=C, labels=LABELS)
    order = np.random.default_rng(0).permutation(N)
    with pytest.raises(InputError, match="index"):
        recorder.record(logits(0, 0)[order], epoch=0, labels=torch.from_numpy(LABELS[order]))


def test_a_folder_of_scores_that_an_earlier_version_recorded_is_refused(tmp_path):
    Recorder(tmp_path / "run", ids=IDS, n_classes=C).close()
    header = tmp_path / "run" / "zarr.json"
    header.write_text(header.read_text().replace('"predictions"', '"scores"'))
    for look in (Predictions.open, lambda path: Recorder(path, ids=IDS, n_classes=C)):
        with pytest.raises(InputError):
            look(tmp_path / "run")


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"epoch": -1}, {"seed": 1.5}, {"epoch": "last"}, {"seed": 2**31}])
def test_numbers_that_a_store_would_not_list_are_refused_before_anything_is_written(tmp_path, wrong):
    name, value = next(iter(wrong.items()))
    with (
        Recorder(tmp_path / "run", ids=IDS, n_classes=C) as recorder,
        pytest.raises(InputError, match=rf"\b{name}\b.*{value!r}"),
    ):
        recorder.record(logits(0, 0), **({"seed": 0, "epoch": 0} | wrong))
    assert Predictions.open(tmp_path / "run").seeds == ()


def test_numbers_may_be_of_numpy_or_torch(tmp_path):
    with Recorder(tmp_path / "run", ids=IDS, n_classes=C) as recorder:
        recorder.record(logits(1, 2), seed=np.int64(1), epoch=torch.tensor(2))
    assert np.allclose(Predictions.open(tmp_path / "run").read(1, 2), expected(1, 2), atol=1e-3)


def test_a_batch_that_was_refused_takes_no_rows(tmp_path):
    probs = np.eye(2, dtype=np.float32)[[0, 1, 1, 0]]
    with Recorder(tmp_path / "run", ids=list("abcd"), n_classes=2, labels=[0, 1, 1, 0]) as recorder:
        with pytest.raises(InputError, match="labels"):
            recorder.record(probs[:2], epoch=0, labels=[1, 0])
        recorder.record(probs[:2], epoch=0, labels=[0, 1])
        recorder.record(probs[2:], epoch=0, labels=[1, 0])
    np.testing.assert_array_equal(Predictions.open(tmp_path / "run").read(0, 0), probs)
