"""Learned noise of integer images: it is a density on every cell, and a tighter bound with more draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.flows.small import COLOUR, GREY, VECTORS, random_flow

from hardpan import flows
from hardpan.errors import InputError
from hardpan.flows.scaling import Dequantizer


def moved(channels, seed=0, size=0.05):
    """A dequantizer whose weights are moved at random, in double precision."""
    module = Dequantizer(channels, 8, seed).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for item in module.parameters():
            item.add_(size * torch.randn(item.shape, generator=generator, dtype=item.dtype))
    module.precision = torch.float64
    return module


def test_it_starts_as_uniform_noise():
    x, noise = torch.rand(3, 4, 4, 1), torch.rand(3, 4, 4, 1)
    u, log_q = Dequantizer(1, 8)(x, noise)
    torch.testing.assert_close(u, noise, rtol=0, atol=1e-5)
    torch.testing.assert_close(log_q, torch.zeros(3), rtol=0, atol=1e-4)


@pytest.mark.parametrize("channels", [1, 3])
def test_its_density_is_that_of_uniform_noise_carried_along(channels):
    module = moved(channels)
    generator = torch.Generator().manual_seed(1)
    x, noise = (torch.rand(1, 2, 4, channels, generator=generator, dtype=torch.float64) for _ in range(2))
    jacobian = torch.autograd.functional.jacobian(lambda value: module(x, value)[0], noise)
    size = noise.numel()
    expected = -torch.linalg.slogdet(jacobian.reshape(size, size)).logabsdet
    with torch.no_grad():
        u, log_q = module(x, noise)
    assert float(log_q) == pytest.approx(float(expected), abs=1e-9)
    assert bool(((u > 0) & (u < 1)).all())
    assert abs(float(log_q)) > 0.01


@pytest.mark.parametrize("x", [GREY, COLOUR], ids=["grey", "colour"])
def test_more_draws_bound_the_likelihood_more_tightly(x):
    flow = random_flow(x, dequantization="variational")
    y = np.arange(len(x)) % 3
    single = [flow.nll(x, y, seed=seed).value for seed in (5, 6, 7)]
    assert flow.nll(x, y, draws=3, seed=5).value <= np.mean(single) + 1e-9


def test_a_saved_flow_keeps_its_noise(tmp_path):
    flow = random_flow(GREY, dequantization="variational")
    flow.save(tmp_path)
    again = flows.load(tmp_path)
    np.testing.assert_array_equal(again.log_joint(GREY[:5]), flow.log_joint(GREY[:5]))


def test_the_noise_is_within_the_cell_that_a_flow_sees():
    flow = random_flow(GREY, dequantization="variational")
    integers = torch.from_numpy(flow.network.scaling.padded(GREY)).float()
    x, _ = flow.network.dequantized(integers, torch.rand(integers.shape))
    assert bool(((x >= integers) & (x <= integers + 1)).all())


def test_feature_vectors_have_uniform_noise_only():
    with pytest.raises(InputError, match="dequantization"):
        random_flow(VECTORS, dequantization="variational")


@pytest.mark.parametrize("setting", ["dequantization", "class_loss"])
def test_unknown_settings_are_refused(setting):
    with pytest.raises(InputError, match=setting):
        flows.FlowConfig(**{setting: "other"}).filled()


@pytest.mark.parametrize("class_covariances", [False, True])
def test_the_posterior_loss_is_that_of_the_posterior(class_covariances):
    flow = random_flow(GREY, class_loss="posterior", class_covariances=class_covariances)
    x = torch.from_numpy(flow.network.scaling.continuous(GREY, np.random.default_rng(0)))
    one_hot = torch.eye(3)[torch.arange(len(GREY)) % 3]
    _, log_class = flow.network(x, one_hot)
    expected = np.log(flow.posterior(GREY))[np.arange(len(GREY)), np.arange(len(GREY)) % 3]
    np.testing.assert_allclose(log_class.detach().numpy(), expected, rtol=1e-4, atol=1e-4)


def test_gradients_reach_every_weight_of_the_noise():
    module = moved(1)
    x, noise = torch.rand(2, 4, 4, 1, dtype=torch.float64), torch.rand(2, 4, 4, 1, dtype=torch.float64)
    u, log_q = module(x, noise)
    (u.square().sum() + log_q.sum()).backward()
    assert all(float(item.grad.abs().max()) > 0 for item in module.parameters())
