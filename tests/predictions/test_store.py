import json
import multiprocessing
import pickle
import shutil
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.predictions.made import labels, logits, names, probabilities

from hardpan.errors import InputError
from hardpan.predictions import Predictions, check, export, merge
from hardpan.predictions.recorder import Recorder
from hardpan.predictions.store import is_store

N, C = 100, 7


def made(path, **options):
    settings = {"ids": names(N), "n_classes": C, "labels": labels(N, C), "block": 30} | options
    return Predictions.create(path, **settings)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("remote", [False, True])
def test_what_was_written_is_read_back_bit_for_bit(tmp_path, dtype, remote):
    path = f"memory://{tmp_path.name}-{dtype}" if remote else tmp_path / "run"
    assert not is_store(path)
    written = made(path, dtype=dtype, split=["train"] * 80 + ["test"] * 20, config={"lr": 0.1})
    assert is_store(path)
    given = probabilities(2, 3, N, C, dtype=dtype)
    for seed in (0, 1):
        for epoch in range(3):
            written.write(seed, epoch, given[seed, epoch])
    found = Predictions.open(path)
    assert found.seeds == (0, 1)
    assert found.epochs == (0, 1, 2)
    assert found.dtype == dtype
    assert np.array_equal(found.to_array(), given)
    assert np.array_equal(found.read(1, 2, 25, 61), given[1, 2, 25:61])
    assert found.ids.tolist() == names(N).tolist()
    assert found.labels.tolist() == labels(N, C).tolist()
    assert found.split.tolist() == ["train"] * 80 + ["test"] * 20
    assert found.config == {"lr": 0.1}
    assert found.versions["zarr"] == zarr.__version__


def test_any_zarr_reader_reads_it(tmp_path):
    written = made(tmp_path / "run")
    given = probabilities(N, C)
    written.write(3, 12, given)
    assert np.array_equal(zarr.open_group(tmp_path / "run")["probabilities/3/12"][:], given)


@pytest.mark.parametrize("filters", [[{"id": "pickle"}], [{"id": "vlen-utf8"}, {"id": "pickle"}]])
@pytest.mark.parametrize("column", ["ids", "labels"])
def test_columns_are_never_unpickled(tmp_path, monkeypatch, column, filters):
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)  # as before 0.16.6
    made(tmp_path / "run")
    folder = tmp_path / "run" / column
    shutil.rmtree(folder)
    folder.mkdir()
    array = {"zarr_format": 2, "shape": [N], "chunks": [N], "dtype": "|O", "order": "C", "fill_value": None}
    (folder / ".zarray").write_text(
        json.dumps(array | {"filters": filters[:1], "compressor": (filters[1:] or [None])[0]})
    )
    (folder / "0").write_bytes(pickle.dumps(Planted(tmp_path / "ran")))
    with pytest.raises(InputError):
        getattr(Predictions.open(tmp_path / "run"), column)
    assert not (tmp_path / "ran").exists()


class Planted:
    """Makes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return self.path.touch, ()


def test_a_shard_without_its_marker_does_not_exist(tmp_path):
    written = made(tmp_path / "run")
    given = probabilities(N, C)
    written.write(0, 0, given)
    written.write(0, 1, given)
    marker = tmp_path / "run/probabilities/0/1/commit/2.json"
    assert json.loads(marker.read_text())["rows"] == 30
    marker.unlink()
    found = Predictions.open(tmp_path / "run")
    assert found.committed(0, 0)
    assert not found.committed(0, 1)
    assert found.epochs == (0,)
    assert found.reader.partial() == {(0, 1): 3}
    with pytest.raises(InputError, match=r"\bepoch\W+1\b"):
        found.read(0, 1)
    found.write(0, 1, given)
    assert np.array_equal(Predictions.open(tmp_path / "run").read(0, 1), given)


def test_a_store_half_made_is_no_store_and_can_be_made_again(tmp_path):
    made(tmp_path / "run")
    (tmp_path / "run/zarr.json").unlink()
    with pytest.raises(InputError, match="run"):
        Predictions.open(tmp_path / "run")
    made(tmp_path / "run", ids=[f"other-{row}" for row in range(N)]).write(0, 0, probabilities(N, C))
    assert Predictions.open(tmp_path / "run").ids[0] == "other-0"


def test_a_second_store_at_the_same_place_is_refused(tmp_path):
    made(tmp_path / "run")
    with pytest.raises(InputError, match="run"):
        made(tmp_path / "run")


def test_the_same_numbers_again_pass_and_others_are_refused(tmp_path):
    written = made(tmp_path / "run")
    given = probabilities(N, C)
    written.write(0, 0, given)
    written.write(0, 0, given)
    with pytest.raises(InputError):
        written.write(0, 0, given[::-1])
    assert np.array_equal(Predictions.open(tmp_path / "run").read(0, 0), given)


def record_one_seed(path, seed, ready):
    ready.wait()
    with Recorder(path, ids=names(N), n_classes=C, labels=labels(N, C), block=30) as recorder:
        assert recorder.predictions.ids.tolist() == names(N).tolist()
        for epoch in range(4):
            recorder.record(probabilities(N, C, seed=10 * seed + epoch), seed=seed, epoch=epoch)


def test_many_processes_make_a_store_and_write_their_seeds_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(3)
    writers = [context.Process(target=record_one_seed, args=(tmp_path / "run", seed, ready)) for seed in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    found = Predictions.open(tmp_path / "run")
    assert found.seeds == (0, 1, 2)
    assert found.epochs == (0, 1, 2, 3)
    for seed in found.seeds:
        for epoch in found.epochs:
            assert np.array_equal(found.read(seed, epoch), probabilities(N, C, seed=10 * seed + epoch))


def test_epochs_are_those_of_every_seed(tmp_path):
    written = made(tmp_path / "run")
    for seed, epochs in ((0, (1, 2, 3)), (4, (2, 3, 9))):
        for epoch in epochs:
            written.write(seed, epoch, probabilities(N, C))
    assert written.seeds == (0, 4)
    assert written.epochs == (2, 3)
    assert written.epochs_of(4) == (2, 3, 9)
    assert written.committed(4, 9)
    assert not written.committed(0, 9)


def test_refresh_sees_what_others_committed(tmp_path):
    first = made(tmp_path / "run")
    Predictions.open(tmp_path / "run").write(0, 0, probabilities(N, C))
    assert not first.committed(0, 0)
    first.reader.refresh()
    assert first.committed(0, 0)


def test_rows_in_zero_and_one_are_written_though_all_are_alike(tmp_path):
    written = Predictions.create(tmp_path / "run", ids=names(4), n_classes=2, block=2)
    given = np.array([[1.0, 0.0]] * 4)
    written.write(0, 0, given)
    assert np.array_equal(Predictions.open(tmp_path / "run").read(0, 0), given)


def test_a_store_can_be_sent_to_another_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written = made("run")
    written.write(0, 0, probabilities(N, C))
    sent = pickle.dumps(written)
    monkeypatch.chdir("/")
    sent = pickle.loads(sent)
    assert np.array_equal(sent.read(0, 0), probabilities(N, C))


def test_remote_stores_are_merged_verified_and_exported(tmp_path):
    where = f"memory://{tmp_path.name}"
    for seed in (0, 1):
        with Recorder(f"{where}/{seed}", ids=names(N), n_classes=C, labels=labels(N, C)) as recorder:
            recorder.record(logits(N, C, seed=seed), seed=seed, epoch=0)
    merge([f"{where}/0", f"{where}/1"], f"{where}/all")
    assert check(f"{where}/all").ok
    assert check(f"{where}/all").bytes > 0
    export(Predictions.open(f"{where}/all"), tmp_path / "all.npz")
    assert np.array_equal(
        Predictions.open(tmp_path / "all.npz").to_array(), Predictions.open(f"{where}/all").to_array()
    )


def test_ids_that_were_changed_are_noticed(tmp_path):
    made(tmp_path / "run")
    zarr.open_group(tmp_path / "run")["ids"][3] = "somebody else"
    with pytest.raises(InputError, match="ids"):
        _ = Predictions.open(tmp_path / "run").ids


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"ids": ["a"] * N}, "ids"),
        ({"ids": []}, "ids"),
        ({"labels": [C] * N}, "labels"),
        ({"labels": [0]}, "labels"),
        ({"n_classes": 1}, "n_classes"),
        ({"dtype": "float64"}, "dtype"),
        ({"class_names": ["cat"]}, "class_names"),
        ({"split": ["fold-1"] * N}, "split"),
        ({"config": {"model": object()}}, "config"),
        ({"block": 0}, "block"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tmp_path, options, argument):
    with pytest.raises(InputError, match=argument):
        made(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("rows", "start"),
    [
        (probabilities(N, C + 1), 0),
        (probabilities(10, C), 0),
        (probabilities(30, C), 10),
        (probabilities(N, C), 30),
        (np.eye(C, dtype=int)[[0] * N], 0),
        (logits(N, C), 0),
    ],
)
def test_rows_that_do_not_fit_are_refused(tmp_path, rows, start):
    written = made(tmp_path / "run")
    with pytest.raises(InputError):
        written.write(0, 0, rows, start=start)
    assert Predictions.open(tmp_path / "run").seeds == ()


def test_rows_that_are_not_probabilities_are_named(tmp_path):
    written = made(tmp_path / "run")
    rows = probabilities(N, C, dtype=np.float64)
    rows[17, 2] = np.nan
    rows[63] *= 1.01
    with pytest.raises(InputError, match=r"image-17\W+image-63"):
        written.write(0, 0, rows)


@pytest.mark.parametrize("where", ["zarr.json", "probabilities/0/0/zarr.json", "probabilities/0/0/c/1/0"])
def test_damage_gives_one_sentence(tmp_path, where):
    made(tmp_path / "run").write(0, 0, probabilities(N, C))
    damaged = tmp_path / "run" / where
    damaged.write_bytes(damaged.read_bytes()[:-9])
    with pytest.raises(InputError, match=str(tmp_path)):
        Predictions.open(tmp_path / "run").read(0, 0)


PRINTABLE = st.characters(codec="utf-8", exclude_categories=("C", "Z")).filter(lambda letter: letter.isprintable())


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 40),
    classes=st.integers(2, 5),
    block=st.integers(1, 50),
    seed=st.integers(0, 2**31 - 1),
    epoch=st.integers(0, 2**31 - 1),
    text=st.lists(st.text(PRINTABLE, min_size=1), min_size=40, max_size=40, unique=True),
)
def test_any_shape_block_and_id_survives(tmp_path_factory, n, classes, block, seed, epoch, text):
    path = tmp_path_factory.mktemp("any") / "run"
    given = probabilities(n, classes)
    ids = [f"{name}/{row}" for row, name in enumerate(text[:n])]
    Predictions.create(path, ids=ids, n_classes=classes, block=block).write(seed, epoch, given)
    found = Predictions.open(path)
    assert found.ids.tolist() == ids
    assert np.array_equal(found.read(seed, epoch), given)


def test_a_remote_place_remembers_no_listing():
    """A listing that is remembered hides what other processes write later."""
    pytest.importorskip("s3fs")
    from hardpan.predictions.storage import Storage

    for address in ("s3://runs/run", "memory://run"):
        systems = [Storage(address).store._store.fs]
        systems += [vars(system)["sync_fs"] for system in systems if "sync_fs" in vars(system)]
        for system in systems:
            system.dircache["folder"] = [{"name": "folder/object"}]
            assert "folder" not in system.dircache


def test_of_two_writers_of_one_epoch_one_is_refused(tmp_path):
    ids = names(40)
    Predictions.create(tmp_path / "run", ids=ids, n_classes=C, block=10)
    for epoch in range(8):
        stores = [Predictions.open(tmp_path / "run") for _ in range(2)]  # neither knows of the other
        given = [probabilities(40, C, seed=10 * epoch + writer) for writer in range(2)]
        barrier = threading.Barrier(2)

        def write(writer, epoch=epoch, stores=stores, given=given, barrier=barrier):
            barrier.wait()
            try:
                stores[writer].write(0, epoch, given[writer])
            except InputError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            accepted = list(pool.map(write, range(2)))
        assert sum(accepted) <= 1
        assert check(tmp_path / "run").ok
        if any(accepted):
            assert np.array_equal(Predictions.open(tmp_path / "run").read(0, epoch), given[accepted.index(True)])


def test_a_late_writer_does_not_replace_what_is_committed(tmp_path):
    early = Predictions.create(tmp_path / "run", ids=names(20), n_classes=C)
    late = Predictions.open(tmp_path / "run")
    first, second = probabilities(20, C, seed=1), probabilities(20, C, seed=2)
    early.write(0, 0, first)
    with pytest.raises(InputError):
        late.write(0, 0, second)
    assert np.array_equal(Predictions.open(tmp_path / "run").read(0, 0), first)
    Predictions.open(tmp_path / "run").write(0, 0, first)


@pytest.fixture(params=["folder", "memory"])
def somewhere(request, tmp_path):
    """The path of a new store: in a folder, and on an object store with conditional writes."""
    return tmp_path / "run" if request.param == "folder" else f"memory://{tmp_path.name}-{uuid.uuid4().hex}/run"


@pytest.mark.parametrize("moment", ["put", "create", "create_json"])
def test_on_an_object_store_a_writer_who_comes_second_leaves_the_first_ones_shard(tmp_path, monkeypatch, moment):
    path = f"memory://{tmp_path.name}-{moment}/run"
    early = Predictions.create(path, ids=names(20), n_classes=C)
    late, leftover = Predictions.open(path), Predictions.open(path)
    first, second, third = (probabilities(20, C, seed=seed) for seed in range(3))
    if moment == "put":  # a process that was killed before its marker
        monkeypatch.setattr(
            leftover.reader.storage, "create_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            leftover.write(0, 0, third)
    before = getattr(late.reader.storage, moment)

    def after_the_other(*arguments):
        monkeypatch.setattr(late.reader.storage, moment, before)
        early.write(0, 0, first)
        before(*arguments)

    monkeypatch.setattr(late.reader.storage, moment, after_the_other)
    with pytest.raises(InputError):
        late.write(0, 0, second)
    opened = Predictions.open(path)
    if moment != "put":
        assert np.array_equal(opened.read(0, 0), first)
    else:  # both replaced the leftover: nobody's numbers are there, and nobody's numbers are read
        assert not opened.committed(0, 0)
        early.reader.refresh()
        assert not early.committed(0, 0)
    assert check(path).ok


def test_swapped_shards_are_refused_when_they_are_read(somewhere):
    made = Predictions.create(somewhere, ids=names(20), n_classes=C, block=10)
    made.write(0, 0, probabilities(20, C, seed=1))
    made.write(0, 1, probabilities(20, C, seed=2))
    one, two = (f"probabilities/0/{epoch}/c/1/0" for epoch in (0, 1))
    first, second = made.reader.storage.get(one), made.reader.storage.get(two)
    made.reader.storage.put(one, second)
    made.reader.storage.put(two, first)
    opened = Predictions.open(somewhere)
    assert len(opened.read(0, 0, 0, 10)) == 10
    for epoch in (0, 1):
        with pytest.raises(InputError):
            opened.read(0, epoch)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"sha256": "0"}'], ids=["cut", "a list", "another hash"])
def test_a_damaged_marker_is_refused_when_its_shard_is_read(somewhere, content):
    made = Predictions.create(somewhere, ids=names(20), n_classes=C, block=10)
    made.write(0, 0, probabilities(20, C))
    made.reader.storage.put("probabilities/0/0/commit/1.json", content)
    opened = Predictions.open(somewhere)
    assert len(opened.read(0, 0, 0, 10)) == 10
    with pytest.raises(InputError):
        opened.read(0, 0)


def test_a_store_whose_markers_have_no_checksum_is_compared_by_hash(somewhere):
    made = Predictions.create(somewhere, ids=names(20), n_classes=C, block=10)
    for epoch in range(2):
        made.write(0, epoch, probabilities(20, C, seed=epoch))
        key = f"probabilities/0/{epoch}/commit/1.json"
        marker = made.reader.storage.get_json(key)
        del marker["crc32c"]
        made.reader.storage.put_json(key, marker)
    assert np.array_equal(Predictions.open(somewhere).read(0, 1), made.read(0, 1))
    made.reader.storage.put("probabilities/0/1/c/1/0", made.reader.storage.get("probabilities/0/0/c/1/0"))
    with pytest.raises(InputError):
        Predictions.open(somewhere).read(0, 1)
