"""Objects of a wrong type are refused by the name of the argument, never by a bare TypeError."""

import pytest

from hardpan import files, flows, training
from hardpan.errors import InputError


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("flow", lambda: flows.load(5)),
        ("flow", lambda: flows.weights_hash(None)),
        ("folder", lambda: flows.read_benchmark(None)),
        ("model", lambda: training.load_model(None)),
        ("path", lambda: files.load(None)),
        ("clip", lambda: flows.FlowConfig(clip="a").filled()),
        ("config", lambda: flows.fit("digits", {"epochs": 1})),
    ],
)
def test_the_argument_is_named(name, call):
    with pytest.raises(InputError, match=rf"\b{name}\b"):
        call()
