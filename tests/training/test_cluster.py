"""Seeds on a real Dask cluster and a real Ray head, a worker killed in the middle: the store of one process."""

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.execution.conftest import dask_cluster, ray_head

import hardpan
from hardpan import training
from hardpan.predictions import Predictions
from hardpan.training.saved import describe_model

# Dask and Ray use what Python and their own libraries have put aside; ours may not.
pytestmark = [
    pytest.mark.soak,  # a minute of starting clusters; tests/execution kills workers at every run
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = 1078 // 128  # an epoch of digits' training part


@pytest.fixture(scope="module", autouse=True)
def _importable():
    """Workers import the classifier of these tests from the repository, as users' workers import theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The settings, the mark that the first run to reach its second epoch makes, and the store of one process."""
    folder = tmp_path_factory.mktemp("reference")
    mark = folder / "mark"
    options = {"mark": str(mark), "pause_after": STEPS + STEPS // 2}
    config = training.TrainConfig(
        model="tests.training.cluster_job:waiting",
        seeds=3,
        epochs=3,
        rate=0.05,
        device="cpu",
        model_options=options,
    )
    mark.touch()  # nobody waits
    with hardpan.parallel(workers=1):
        made = training.train("digits", config, out=folder / "run")
    mark.unlink()
    return config, mark, made


@pytest.fixture(params=["dask", "ray"])
def cluster(request, tmp_path):
    """Name and address of a back end that runs."""
    if request.param == "dask":
        with dask_cluster(tmp_path) as (address, _):
            yield "dask", address
    else:
        with ray_head() as address:
            yield "ray", address


def kill_who_waits(mark: Path, killed: list[int], ended: threading.Event) -> None:
    while not mark.exists() and not ended.wait(0.05):  # a busy machine may need minutes until a worker trains
        pass
    if mark.exists():
        killed.append(int(mark.read_text()))
        os.kill(killed[0], signal.SIGKILL)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_worker_is_killed_in_the_middle_and_the_store_has_the_same_bytes(cluster, reference, tmp_path):
    backend, address = cluster
    config, mark, expected = reference
    mark.unlink(missing_ok=True)
    killed: list[int] = []
    ended = threading.Event()
    killer = threading.Thread(target=kill_who_waits, args=(mark, killed, ended))
    killer.start()
    try:
        with hardpan.parallel(backend, address=address):
            made = training.train("digits", config, out=tmp_path / "run")
    finally:
        ended.set()
        killer.join()
    assert killed
    assert os.getpid() not in killed
    found, wanted = Predictions.open(tmp_path / "run"), Predictions.open(expected.stores[0])
    assert (found.seeds, found.epochs) == ((0, 1, 2), (1, 2, 3))
    np.testing.assert_array_equal(found.to_array(), wanted.to_array())
    assert content(tmp_path / "run") == content(Path(expected.stores[0]))
    assert sum(run.resumed_at == 1 for run in made.runs) == 1  # it went on from the checkpoint of its first epoch
    for one, other in zip(made.runs, expected.runs, strict=True):
        assert one.values == other.values
        assert describe_model(one.weights)["sha256"] == describe_model(other.weights)["sha256"]
