"""Devices, precision, schedules, averages, optimisers and random states: closed forms and round trips."""

import math

import pytest
import torch
from tests.refusals import refused
from torch import nn

from hardpan import engine
from hardpan.engine import devices, optimization, seeds
from hardpan.errors import InputError

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cpu:1", "auto:0", ""])
def test_unknown_devices_are_refused(name):
    with pytest.raises(InputError, match=r"\bdevice\b.*cuda:N"):
        engine.pick_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said():
    assert engine.pick_device("auto") == CPU
    with pytest.raises(InputError, match="device"):
        engine.pick_device("cuda")


def test_precisions():
    assert devices.choose_precision("bf16", CPU) == "bf16"
    with refused("precision"):
        devices.choose_precision("fp8", CPU)
    with pytest.raises(InputError, match="GPU"):
        devices.choose_precision("tf32", CPU)
    with devices.autocast("float32", CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_schedules_follow_their_formulas():
    cosine = optimization.rate_table("cosine", rate=0.2, steps=100, final=0.01)
    for step in (0, 1, 50, 99):
        expected = 0.01 + 0.19 * (1 + math.cos(math.pi * step / 100)) / 2
        assert cosine[step].item() == pytest.approx(expected, rel=1e-6)
    drops = optimization.rate_table("step", rate=1.0, steps=8)
    assert drops.tolist() == pytest.approx([1, 1, 1, 1, 0.1, 0.1, 0.01, 0.01])
    rising = optimization.rate_table("constant", rate=1.0, steps=6, warmup=3)
    assert rising.tolist() == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])
    assert optimization.rate_table("cosine", rate=1.0, steps=1, warmup=5).tolist() == [1.0]


@pytest.mark.parametrize(
    "bad", [{"kind": "linear"}, {"rate": 0.0}, {"rate": math.nan}, {"steps": 0}, {"warmup": -1}]
)
def test_impossible_schedules_are_refused(bad):
    given = {"kind": "cosine", "rate": 0.1, "steps": 10} | bad
    with pytest.raises(InputError):
        optimization.rate_table(given.pop("kind"), **given)


def test_a_schedule_moves_along_its_table_and_stays_at_its_end():
    table = torch.tensor([1.0, 1.0, 0.1])
    optimizer = optimization.ScheduledOptimizer(nn.Linear(1, 1), "sgd", table)
    seen = []
    for _ in range(5):
        optimizer.step()
        seen.append(optimizer.rate.item())
    assert seen == pytest.approx([*table.tolist(), table[-1].item(), table[-1].item()])


def test_the_average_of_constant_weights_is_the_constant_and_the_exchange_is_exact():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    average = optimization.WeightAverage(model, decay=0.99)
    start = {name: item.clone() for name, item in model.state_dict().items()}
    for _ in range(5):
        average.update()
    assert all(torch.equal(average.values[name], start[name]) for name in start)
    with torch.no_grad():
        for item in model.parameters():
            item.add_(1.0)
    model[1].num_batches_tracked += 7
    average.update()
    # Update t = 5 has decay 6/15, so 9/15 of the way is gone.
    moved = average.values["0.weight"] - start["0.weight"]
    assert torch.allclose(moved, torch.full_like(moved, 0.6), atol=1e-6)
    assert average.values["1.num_batches_tracked"] == 7
    own, mean = model[0].weight.clone(), average.values["0.weight"].clone()
    address = model[0].weight.data_ptr()
    with average.applied():
        assert torch.equal(model[0].weight, mean)
    assert torch.equal(model[0].weight, own)
    assert model[0].weight.data_ptr() == address
    with pytest.raises(InputError, match=r"\bdecay\b"):
        optimization.WeightAverage(model, decay=1.0)


@pytest.mark.parametrize("name", optimization.OPTIMIZERS)
def test_an_optimiser_equals_torch_with_a_plain_rate(name):
    """The fused one with a tensor as rate is the textbook one, decay on matrices only."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    twin = nn.Linear(4, 3)
    twin.load_state_dict(model.state_dict())
    rate = torch.tensor(0.1)
    ours = optimization.build_optimizer(name, model.parameters(), rate=rate, weight_decay=0.1)
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[name]
    more = {"momentum": 0.9, "nesterov": True} if name == "sgd" else {}
    groups = [{"params": [twin.weight], "weight_decay": 0.1}, {"params": [twin.bias], "weight_decay": 0.0}]
    theirs = kind(groups, lr=0.1, fused=False, foreach=False, **more)
    x = torch.randn(8, 4)
    for step in range(6):
        rate.fill_(0.1 / (step + 1))
        for group in theirs.param_groups:
            group["lr"] = 0.1 / (step + 1)
        for one, optimizer in ((model, ours), (twin, theirs)):
            optimizer.zero_grad()
            one(x).square().sum().backward()
            optimizer.step()
    assert torch.allclose(model.weight, twin.weight, atol=1e-6)
    assert torch.allclose(model.bias, twin.bias, atol=1e-6)


def test_nothing_to_train_and_unknown_optimisers_are_refused():
    with pytest.raises(InputError, match="parameter"):
        optimization.build_optimizer("sgd", [], rate=torch.tensor(0.1))
    with refused("optimizer"):
        optimization.build_optimizer("lion", nn.Linear(1, 1).parameters(), rate=torch.tensor(0.1))


def test_orders_depend_on_their_parts_alone():
    torch.manual_seed(3)
    one = seeds.seeded_permutation(100, 0, "epoch", 1)
    torch.rand(7)
    assert torch.equal(seeds.seeded_permutation(100, 0, "epoch", 1), one)
    assert not torch.equal(seeds.seeded_permutation(100, 0, "epoch", 2), one)
    assert seeds.derived_seed(1, 23) != seeds.derived_seed(12, 3)


@pytest.mark.parametrize("name", optimization.OPTIMIZERS)
def test_a_loaded_optimiser_has_the_layout_of_its_parameters(name, tmp_path):
    """Fused kernels refuse a state whose strides are not the parameter's, and a checkpoint keeps no strides."""

    def made():
        torch.manual_seed(0)
        model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        return model, optimization.ScheduledOptimizer(model, name, torch.tensor([0.1]))

    def train(model, optimizer):
        optimizer.zero_gradients()
        model(torch.ones(2, 3, 8, 8)).square().sum().backward()
        optimizer.step()

    model, optimizer = made()
    train(model, optimizer)
    engine.save_checkpoint(tmp_path, tensors=optimizer.tensors(), state={})
    loaded, other = made()
    loaded.load_state_dict(model.state_dict())
    other.load_tensors(engine.load_checkpoint(tmp_path).tensors)
    for parameter, values in other.optimizer.state.items():
        for item in values.values():
            if item.shape == parameter.shape:
                assert item.stride() == parameter.stride()
                assert not item.requires_grad
    train(model, optimizer)
    train(loaded, other)
    assert torch.equal(loaded.weight, model.weight)
