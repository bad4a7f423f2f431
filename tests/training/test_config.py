"""Settings are checked at the door, each with a sentence that names it."""

import math

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tests.refusals import refused

from hardpan import files
from hardpan.training import TrainConfig
from hardpan.training.config import with_defaults


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("seeds", 1.5),
        ("batch", True),
        ("rate", -1.0),
        ("rate", math.nan),
        ("warmup", 2.0),
        ("momentum", "high"),
        ("schedule", "linear"),
        ("augment", "mixup"),
        ("objective", "irm"),
        ("optimizer", "lion"),
        ("precision", "fp8"),
        ("model", " , "),
        ("ema", 1.0),
    ],
)
def test_what_is_not_allowed_is_named(name, value):
    with refused(name):
        TrainConfig(**{name: value})


@settings(max_examples=50, deadline=None)
@given(epochs=st.integers(1, 200), every=st.integers(1, 250))
def test_recorded_epochs_end_with_the_last_and_are_evenly_spaced(epochs, every):
    found = TrainConfig(epochs=epochs, record_every=every).recorded_epochs()
    assert found[-1] == epochs
    assert all(epoch % every == 0 for epoch in found[:-1])
    assert len(found) == -(-epochs // every)


def test_settings_come_back_from_json():
    config = TrainConfig(model="vgg16", model_options={"dropout": 0.5}, objective_options={"step": 0.1})
    assert files.from_json(files.to_json(config)) == config


def test_only_what_decides_the_numbers_is_held_against_a_resume():
    one = TrainConfig(device="cpu", threads=1, seeds=1)
    assert one.deciding() == TrainConfig(device="cuda", threads=4, seeds=9).deciding()
    assert one.deciding() != TrainConfig(rate=0.3).deciding()


def test_recipes_leave_what_is_given():
    given_ = with_defaults(
        TrainConfig(rate=0.7, optimizer="adam", weight_decay=0.0, clip=3.0), "resnet18", (3, 32, 32)
    )
    assert (given_.rate, given_.optimizer, given_.weight_decay, given_.clip) == (0.7, "adam", 0.0, 3.0)
    assert with_defaults(TrainConfig(), "linear", (3, 32, 32)).rate == pytest.approx(10 / 3072)


@pytest.mark.parametrize(
    ("model", "batch", "rate"),
    [
        ("resnet18", 128, 0.1),
        ("resnet18", 512, 0.4),
        ("resnet50", 512, 0.4),
        ("wide-resnet-28-10", 128, 0.1),
        ("convnet", 128, 0.1),
        ("vgg16", 128, 0.05),
        ("vgg", 512, 0.2),
        ("alexnet", 128, 0.02),
        ("resnet18", 2048, 0.8),  # beyond 512 with the root
    ],
)
def test_the_recipe_of_convolutional_nets_is_the_usual_one(model, batch, rate):
    found = with_defaults(TrainConfig(batch=batch), model, (32, 32, 3))
    assert found.rate == pytest.approx(rate)
    assert (found.optimizer, found.momentum, found.weight_decay) == ("sgd", 0.9, 5e-4)
    assert (found.schedule, found.warmup, found.smoothing, found.clip) == ("cosine", 0.2, 0.0, 0.0)


def test_the_recipe_of_adamw_is_the_usual_one():
    found = with_defaults(TrainConfig(batch=512, optimizer="adamw"), "resnet18", (32, 32, 3))
    assert (found.rate, found.weight_decay, found.clip) == (1e-3, 0.05, 0.0)


def test_sgd_is_nesterovs_and_decay_spares_biases_and_normalisations():
    torch = pytest.importorskip("torch")
    from hardpan.engine import optimization
    from hardpan.training import classifiers

    model = classifiers.build("resnet18", input_shape=(3, 8, 8), n_classes=10, width=4)
    found = optimization.build_optimizer("sgd", model.parameters(), rate=torch.tensor(0.1), weight_decay=5e-4)
    assert all(group["nesterov"] for group in found.param_groups)
    decays = {id(item): group["weight_decay"] for group in found.param_groups for item in group["params"]}
    for name, item in model.named_parameters():
        assert decays[id(item)] == (5e-4 if item.ndim > 1 else 0.0), name


@pytest.mark.parametrize(("model", "begins"), [("resnet18", 1.0), ("resnet50", 0.2)])
def test_branches_of_deep_residual_nets_begin_small(model, begins):
    from hardpan.training import classifiers
    from hardpan.training.classifiers.residual import Residual

    built = classifiers.build(model, input_shape=(3, 8, 8), n_classes=10)
    blocks = [module for module in built.modules() if isinstance(module, Residual)]
    assert len(blocks) >= 8
    for block in blocks:
        last = list(block.branch.modules())[-1].weight
        assert (last == begins).all()
