"""Objectives against closed forms: what the weights must be, where training must end."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hardpan.errors import InputError
from hardpan.training import objectives
from hardpan.training.config import OBJECTIVES

CPU = torch.device("cpu")
GROUPS = np.repeat([0, 1, 2], [60, 30, 10])
WITH_GROUPS = [name for name in OBJECTIVES if name != "erm"]


def built(name, groups=GROUPS, **options):
    return objectives.build(name, n_rows=len(groups), groups=groups, **options)


@pytest.mark.parametrize("adjustment", [0.0, 2.0])
def test_group_weights_after_t_equal_steps_are_a_softmax(adjustment):
    losses, step, steps = np.array([0.2, 0.7, 1.1]), 0.3, 7
    objective = built("groupdro", step=step, adjustment=adjustment)
    state = objective.init(CPU)
    for _ in range(steps):
        loss, state = objective.update(state, torch.tensor(losses), torch.tensor([0, 1, 2]))
    raised = np.exp(step * steps * (losses + adjustment / np.sqrt([60, 30, 10])))
    expected = raised / raised.sum()
    np.testing.assert_allclose(objectives.group_weights(state).numpy(), expected, rtol=1e-5)
    assert float(loss) == pytest.approx(float(expected @ losses), rel=1e-5)  # the loss itself is not adjusted


def test_an_example_pulls_with_its_groups_weight_over_its_groups_count_in_the_batch():
    objective = built("groupdro", step=0.5)
    losses = torch.tensor([1.0, 3.0, 0.5, 2.0, 2.0, 2.0], requires_grad=True)
    groups = torch.tensor([0, 0, 1, 2, 2, 2])
    loss, state = objective.update(objective.init(CPU), losses, groups)
    loss.backward()
    q = objectives.group_weights(state)
    torch.testing.assert_close(losses.grad, q[groups] / torch.tensor([2.0, 2, 1, 3, 3, 3]))
    assert not any(tensor.requires_grad for tensor in state.values())


def test_a_group_that_is_not_in_the_batch_keeps_its_weight_relative_to_others_at_rest():
    objective = built("groupdro", step=1.0, adjustment=3.0)
    _, state = objective.update(objective.init(CPU), torch.tensor([0.0, 0.4]), torch.tensor([0, 1]))
    q = objectives.group_weights(state)
    assert float(q[1] / q[2]) == pytest.approx(math.exp(0.4 + 3.0 / math.sqrt(30)), rel=1e-5)
    assert float(q.sum()) == pytest.approx(1.0)


def test_a_step_of_zero_is_the_mean_of_group_means():
    losses, groups = torch.tensor([1.0, 3.0, 5.0, 0.0]), torch.tensor([0, 0, 1, 2])
    objective = built("groupdro", step=0.0)
    loss, _ = objective.update(objective.init(CPU), losses, groups)
    assert float(loss) == pytest.approx((2.0 + 5.0 + 0.0) / 3)


@pytest.mark.parametrize(("adjustment", "sizes"), [(0.0, (100, 100)), (0.0, (190, 10)), (1.0, (196, 4))])
def test_descent_ends_where_the_worst_groups_are_level(adjustment, sizes):
    # Group g wants theta at c_g: (theta + 1)² and (theta − 1)². With the adjustments a_g = C/√n_g the minimax is
    # where (theta + 1)² + a_0 = (theta − 1)² + a_1, theta = (a_1 − a_0)/4, whatever the sizes of the groups.
    groups = np.repeat([0, 1], sizes)
    objective = built("groupdro", groups, step=0.05, adjustment=adjustment)
    theta = torch.tensor(0.8, requires_grad=True)
    state, path = objective.init(CPU), []
    numbers = torch.tensor([0, 1])
    for step in range(3000):
        loss, state = objective.update(state, torch.stack([(theta + 1) ** 2, (theta - 1) ** 2]), numbers)
        (slope,) = torch.autograd.grad(loss, theta)
        theta = (theta - 0.05 / math.sqrt(1 + step / 100) * slope).detach()
        path.append(float(theta))
        theta.requires_grad_()
    expected = adjustment * (1 / math.sqrt(sizes[1]) - 1 / math.sqrt(sizes[0])) / 4
    assert np.mean(path[-1500:]) == pytest.approx(expected, abs=0.01)


def test_reweighting_all_rows_is_the_mean_of_group_means():
    losses = torch.tensor(np.random.default_rng(0).random(100))
    objective = built("reweight")
    loss, state = objective.update(objective.init(CPU), losses, torch.tensor(GROUPS))
    means = [float(losses[g == GROUPS].mean()) for g in range(3)]
    assert float(loss) == pytest.approx(np.mean(means), rel=1e-6)
    torch.testing.assert_close(
        state["weights"], torch.tensor(100 / (3 * np.array([60, 30, 10.0])), dtype=torch.float32)
    )


@pytest.mark.parametrize("name", ["erm", "upsample", "subsample"])
def test_the_others_minimise_the_mean(name):
    objective = built(name)
    loss, state = objective.update(objective.init(CPU), torch.tensor([1.0, 2.0, 6.0]), torch.tensor([0, 1, 2]))
    assert float(loss) == 3.0
    assert state == {}


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1e4)), min_size=1, max_size=40),
    st.floats(0, 50),
    st.floats(0, 100),
)
def test_weights_stay_on_the_simplex_whatever_the_losses(batch, step, adjustment):
    groups, losses = (torch.tensor(column) for column in zip(*batch, strict=True))
    objective = built("groupdro", step=step, adjustment=adjustment)
    state = objective.init(CPU)
    for _ in range(3):
        loss, state = objective.update(state, losses.float(), groups)
    q = objectives.group_weights(state)
    assert torch.isfinite(loss)
    assert (q >= 0).all()
    assert float(q.sum()) == pytest.approx(1.0, abs=1e-5)
    # No more than the worst group's mean, no less than nothing.
    means = [float(losses[groups == g].mean()) for g in set(groups.tolist())]
    assert -1e-3 <= float(loss) <= max(means) * (1 + 1e-4) + 1e-6


@given(st.permutations(range(9)))
def test_the_order_of_a_batch_does_not_matter(order):
    losses, groups = torch.arange(9) / 7, torch.arange(9) % 3
    objective = built("groupdro", step=1.0)
    index = torch.tensor(order)
    one, _ = objective.update(objective.init(CPU), losses, groups)
    other, _ = objective.update(objective.init(CPU), losses[index], groups[index])
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_update_is_pure_and_never_reads_a_tensor(name):
    objective = built(name)

    class Step(torch.nn.Module):
        def forward(self, state, losses, groups):
            return objective.update(state, losses, groups)

    state = objective.init(CPU)
    before = {key: tensor.clone() for key, tensor in state.items()}
    arguments = (state, torch.rand(8), torch.arange(8) % 3)
    expected = objective.update(*arguments)
    assert all(torch.equal(before[key], tensor) for key, tensor in state.items())
    captured = torch.export.export(Step(), arguments).module()  # fails on .item() or a branch on a value
    torch.testing.assert_close(captured(*arguments), expected)


def test_two_processes_together_do_what_one_does():
    losses, groups = torch.tensor([1.0, 3.0, 0.5, 2.0]), torch.tensor([0, 0, 1, 2])
    state = objectives.init_groupdro(np.array([60, 30, 10]), CPU)
    whole, alone = objectives.groupdro_loss(state, losses, groups, step=0.7, adjustment=1.0)
    halves = [slice(0, 3), slice(3, 4)]
    said: list[torch.Tensor] = []

    def listen(tensor):
        said.append(tensor)
        return tensor

    for half in halves:
        objectives.groupdro_loss(state, losses[half], groups[half], step=0.7, total=listen)
    parts = []
    for half in halves:
        loss, after = objectives.groupdro_loss(
            state, losses[half], groups[half], step=0.7, adjustment=1.0, total=lambda _: said[0] + said[1]
        )
        torch.testing.assert_close(after["log_weights"], alone["log_weights"])
        parts.append(loss)
    torch.testing.assert_close(torch.stack(parts).mean(), whole)  # gradients are averaged over processes


def test_upsampling_sees_every_group_as_often_and_no_example_twice_more_than_another():
    for epoch in range(5):
        rows = built("upsample").rows(0, epoch)
        assert len(rows) == 100
        assert set(np.bincount(GROUPS[rows]).tolist()) <= {33, 34}
        seen = np.bincount(rows, minlength=100)
        for group in range(3):
            assert np.ptp(seen[group == GROUPS]) <= 1


def test_subsampling_keeps_the_smallest_group_whole_and_the_same_rows():
    epochs = [built("subsample").rows(0, epoch) for epoch in range(3)]
    assert np.bincount(GROUPS[epochs[0]]).tolist() == [10, 10, 10]
    assert set(range(90, 100)) <= set(epochs[0].tolist())
    assert len({frozenset(rows.tolist()) for rows in epochs}) == 1
    assert len({tuple(rows.tolist()) for rows in epochs}) == 3


@given(st.lists(st.integers(1, 30), min_size=2, max_size=5), st.integers(0, 2**31), st.sampled_from(OBJECTIVES))
def test_rows_are_a_function_of_seed_and_epoch_and_as_many_as_said(sizes, seed, name):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    objective = built(name, groups)
    rows = objective.rows(seed, 3)
    assert len(rows) == objective.length
    assert rows.min() >= 0
    assert rows.max() < len(groups)
    np.testing.assert_array_equal(rows, built(name, groups).rows(seed, 3))
    if name in ("erm", "reweight"):
        assert sorted(rows.tolist()) == list(range(len(groups)))


def test_another_seed_or_epoch_gives_another_order():
    objective = built("erm")
    orders = {tuple(objective.rows(seed, epoch).tolist()) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9


@pytest.mark.parametrize(
    ("name", "groups", "options", "argument"),
    [
        ("dro", GROUPS, {}, "objective"),
        ("groupdro", GROUPS, {"step": -1.0}, "step of groupdro"),
        ("reweight", np.array([0, 2]), {}, "groups"),
        ("reweight", np.array([0, -1]), {}, "groups"),
        ("reweight", np.array([0.5, 1.0]), {}, "groups"),
        ("reweight", np.array([0, 0]), {}, "groups"),
    ],
)
def test_bad_input_is_refused(name, groups, options, argument):
    with pytest.raises(InputError) as caught:
        built(name, groups, **options)
    assert caught.value.argument == argument


@pytest.mark.parametrize("name", ["erm", "groupdro"])
def test_an_unknown_option_is_refused(name):
    with pytest.raises(InputError, match="'eta'"):
        built(name, eta=1)


@pytest.mark.parametrize("name", WITH_GROUPS)
def test_groups_are_asked_for_where_they_are_needed(name):
    with pytest.raises(InputError, match="groups"):
        objectives.build(name, n_rows=3)
    with pytest.raises(InputError) as caught:
        objectives.build(name, n_rows=3, groups=[0, 1])
    assert caught.value.argument == "groups"
