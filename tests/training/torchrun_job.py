"""One of the processes that torchrun starts: trains by the public function."""

import sys

import pytest

import hardpan
from hardpan import training
from hardpan.errors import InputError


def main(folder: str) -> None:
    config = training.TrainConfig(
        model="mlp", seeds=2, epochs=2, batch=64, device="cpu", model_options={"width": 20}
    )
    training.train("digits", config, out=f"{folder}/run")
    training.train("digits", config, out=f"{folder}/run", epochs=2)  # nothing is left to do, in any process
    with pytest.raises(InputError, match="torchrun"), hardpan.parallel("dask", address="tcp://127.0.0.1:1"):
        training.train("digits", config, out=f"{folder}/run")


if __name__ == "__main__":
    main(sys.argv[1])
