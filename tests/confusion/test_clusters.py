"""Scores on real local Dask and Ray clusters: the same bits as here."""

import numpy as np
import pytest
from tests.confusion.planted import random_probs
from tests.execution.conftest import dask_cluster, ray_head

import hardpan
from hardpan import confusion
from hardpan.predictions import Predictions


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["dask", "ray"])
@pytest.mark.filterwarnings("ignore")  # of the clusters' own making
def test_the_same_bits_on_a_cluster(tmp_path, backend):
    pytest.importorskip("distributed" if backend == "dask" else "ray")
    probs = random_probs(3, 4, 80, 10, dtype=np.float16)
    kept = Predictions.create(tmp_path / "s", ids=[f"e{i}" for i in range(80)], n_classes=10, block=32)
    for seed in range(3):
        for epoch in range(4):
            kept.write(seed, epoch, probs[seed, epoch])
    whole = confusion.scores(probs, stderr=True)
    with dask_cluster(tmp_path) if backend == "dask" else ray_head() as cluster:
        address = cluster[0] if backend == "dask" else cluster
        with hardpan.parallel(backend, workers=2, address=address):
            found = confusion.scores(str(tmp_path / "s"), stderr=True)
    assert np.array_equal(found.values, whole.values)
    assert np.array_equal(found.stderr, whole.stderr)
