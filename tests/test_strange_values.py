"""Files whose arrays and columns have types that nobody expects: an InputError or a noun, and nothing else."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.refusals import read_or_refused

from hardpan import Dataset, Outcomes, Predictions
from hardpan.errors import InputError

N = 12
rng = np.random.default_rng(0)
ARRAYS = {
    "bytes": np.array([b"\xe9t\xe9", b"b", b"\xff"] * 4),
    "nan": np.full(N, np.nan),
    "inf": np.full(N, np.inf),
    "1e308": np.full(N, 1e308),
    "longdouble": np.full(N, 1e300, np.longdouble),
    "uint64": np.full(N, 2**64 - 1, np.uint64),
    "int64": np.full(N, -(2**63)),
    "complex": np.arange(N) + 1j,
    "timedelta": np.arange(N).astype("m8[s]"),
    "datetime": np.arange(N).astype("M8[s]"),
    "void": np.zeros(N, "V4"),
    "struct": np.zeros(N, [("a", "i4"), ("b", "U3")]),
    "text": np.array(["a\0b", "\ud800"] * 6),
    "two axes": np.ones((N, 2), int),
    "three axes": np.ones((N, 2, 2)),
    "scalar": np.array(3.0),
    "empty": np.zeros(0),
    "three": np.array([np.nan, 1.0, 2.0]),
}
NPZ = {
    Dataset: {"x": rng.normal(size=(N, 4)), "y": np.arange(N) % 3},
    Predictions: {"probabilities": rng.dirichlet(np.ones(3), (3, 1, N)), "labels": np.arange(N) % 3},
    Outcomes: {"scores": (rng.random((3, N)) < 0.5).astype(float)},
}
KEYS = {
    Dataset: ("x", "y", "ids", "split", "class_names", "feature_names"),
    Predictions: ("probabilities", "labels", "ids", "split", "class_names", "seeds", "epochs", "models"),
    Outcomes: ("scores", "models", "ids", "groups", "task"),
}
DAY = datetime.date(2020, 1, 1)
COLUMNS = {
    "lists": pa.array([[i, i + 1] for i in range(N)]),
    "structs": pa.array([{"a": i} for i in range(N)]),
    "maps": pa.array([[("a", i)] for i in range(N)], pa.map_(pa.string(), pa.int64())),
    "bytes": pa.array([b"\xff%d" % i for i in range(N)]),
    "fixed bytes": pa.array([b"\xff%3d" % i for i in range(N)], pa.binary(4)),
    "dates": pa.array([DAY + datetime.timedelta(days=i) for i in range(N)]),
    "no date": pa.array([2**31 - 1 - i for i in range(N)], pa.date32()),
    "no time": pa.array([2**62 + i for i in range(N)], pa.timestamp("us")),
    "no zone": pa.array([datetime.datetime(2020, 1, 1)] * N, pa.timestamp("us", "Europe/Nowhere")),
    "no duration": pa.array([2**63 - 1 - i for i in range(N)], pa.duration("s")),
    "decimals": pa.array([decimal.Decimal(10) ** 60 + i for i in range(N)], pa.decimal256(76, 2)),
    "nulls": pa.nulls(N),
    "uint64": pa.array([2**64 - 1 - i for i in range(N)], pa.uint64()),
    "1e308": pa.array([1e308, -1e308] * (N // 2)),
    "nan": pa.array([float("nan")] * N),
}
NUMBERS = {"f1": pa.array(rng.normal(size=N)), "f2": pa.array(rng.normal(size=N))}
PROBABILITIES = {"p0": pa.array([0.25] * N), "p1": pa.array([0.75] * N)}
CELLS = {"item": pa.array([f"i{i // 3}" for i in range(N)]), "score": pa.array([float(i % 2) for i in range(N)])}
PARQUET = {
    Dataset: {"label": pa.array([i % 3 for i in range(N)]), **NUMBERS},
    Predictions: {"id": pa.array([f"i{i}" for i in range(N)]), "label": pa.array([i % 2 for i in range(N)])}
    | PROBABILITIES,
    Outcomes: {"model": pa.array([f"m{i % 3}" for i in range(N)]), **CELLS},
}
ROLES = {
    Dataset: ("id", "label", "f1", "group", "time", "split", "text"),
    Predictions: ("id", "label", "p0", "seed", "epoch", "split", "model"),
    Outcomes: ("model", "item", "score", "task", "run", "answer", "key"),
}


def opened_or_refused(noun, path):
    with read_or_refused():
        item = noun.open(path)
        assert noun.__name__ in repr(item)
        if noun is Predictions:
            assert len(item.outcomes().items) == len(item)


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("noun", NPZ)
def test_an_npz_with_an_array_of_another_type_is_refused_or_read(tmp_path, noun, kind):
    for key in KEYS[noun]:
        path = tmp_path / f"{key}.npz"
        np.savez(path, **NPZ[noun] | {key: ARRAYS[kind]})
        opened_or_refused(noun, path)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("noun", PARQUET)
def test_a_parquet_with_a_column_of_another_type_is_refused_or_read(tmp_path, noun, kind):
    for role in ROLES[noun]:
        path = tmp_path / f"{role}.parquet"
        pq.write_table(pa.table(PARQUET[noun] | {role: COLUMNS[kind]}), path)
        opened_or_refused(noun, path)


def test_class_numbers_beyond_any_number_of_classes_are_refused(tmp_path):
    np.savez(tmp_path / "p.npz", predictions=np.full(N, 2**40), labels=np.zeros(N, int))
    with pytest.raises(InputError):
        Predictions.open(tmp_path / "p.npz").outcomes()
