"""What a recorder cannot use is refused with a sentence that names it."""

import numpy as np
import pytest
import torch
from tests.refusals import refused

from hardpan.errors import InputError
from hardpan.predictions.recorder import Recorder

PROBS = np.full((3, 4), 0.25)


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"path": None}, "path"),
        ({"path": 5}, "path"),
        ({"n_classes": "4"}, "n_classes"),
        ({"n_classes": 4.0}, "n_classes"),
        ({"n_classes": True}, "n_classes"),
        ({"ids": torch.eye(3).to_sparse()}, "ids"),
    ],
)
def test_what_a_recorder_is_made_with(tmp_path, changed, argument):
    given = {"path": tmp_path / "run", "ids": ["a", "b", "c"], "n_classes": 4} | changed
    with refused(argument):
        Recorder(given.pop("path"), **given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("to_sparse", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_sparse_outputs_and_rows(tmp_path, to_sparse):
    with Recorder(tmp_path / "run", ids=["a", "b", "c"], n_classes=4) as recorder:
        with pytest.raises(InputError, match=r"\boutputs\b.*to_dense"):
            recorder.record(to_sparse(torch.from_numpy(PROBS)), epoch=0)
        with pytest.raises(InputError, match=r"\bindex\b"):
            recorder.record(PROBS, torch.arange(3).to_sparse(), epoch=0)
        recorder.record(torch.from_numpy(PROBS), epoch=0)
        assert recorder.done(epoch=0)


def test_a_closed_recorder_says_that_it_is(tmp_path):
    recorder = Recorder(tmp_path / "run", ids=["a", "b", "c"], n_classes=4)
    recorder.record(PROBS, epoch=0)
    recorder.close()
    with pytest.raises(InputError):
        recorder.record(PROBS, epoch=1)
    recorder.flush()
    recorder.close()
    assert recorder.next_epoch() == 1
    with Recorder(tmp_path / "run", ids=["a", "b", "c"], n_classes=np.int64(4)) as again:
        again.record(PROBS, epoch=1)
    assert again.predictions.epochs == (0, 1)
