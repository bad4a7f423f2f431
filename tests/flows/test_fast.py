"""The fast steps compute what the plain ones do, forward and backward; on a GPU the kernels as well."""

from __future__ import annotations

import pytest
import torch

from hardpan.flows.glow import TAPS, GlowBounds, GlowLevel, fold, patches, run_glow_plain
from hardpan.flows.gpu_steps import PlainStepOps, StepDropout, fast_runner
from hardpan.flows.planes import invert_in_planes, run_in_planes

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
OPS = [PlainStepOps] if DEVICE.type == "cpu" else [PlainStepOps, None]


BOUNDS = [GlowBounds(), GlowBounds(0.05, 1.0, 0.0), GlowBounds(reach=0.7)]


def level(channels: int, steps: int = 2, width: int = 16, bounds: GlowBounds = BOUNDS[0]) -> GlowLevel:
    generator = torch.Generator().manual_seed(channels)
    made = GlowLevel(channels, steps, width, generator, bounds)
    with torch.no_grad():
        for item in made.parameters():
            item.add_(0.1 * torch.randn(item.shape, generator=generator))
    return made.to(DEVICE)


def outcome(made: GlowLevel, x: torch.Tensor, run) -> dict[str, torch.Tensor]:
    made.zero_grad()
    x = x.clone().requires_grad_()
    z, log_det = run(x, made.stack())
    weights = torch.linspace(-1, 1, z.numel(), device=z.device).reshape(z.shape)
    ((z * weights).sum() + (log_det * torch.linspace(1, 2, len(x), device=z.device)).sum()).backward()
    found = {"z": z.detach(), "log_det": log_det.detach(), "x": x.grad}
    return found | {name: item.grad for name, item in made.named_parameters() if item.grad is not None}


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize(("channels", "height", "width"), [(4, 4, 4), (6, 2, 6), (12, 3, 5)])
def test_fast_steps_are_the_plain_steps(ops, bounds, channels, height, width):
    made = level(channels, bounds=bounds)
    x = torch.randn(3, height, width, channels, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    plain = outcome(made, x, run_glow_plain)
    fast = outcome(made, x, fast_runner(torch.float32, ops))
    assert plain.keys() == fast.keys()
    for name, expected in plain.items():
        torch.testing.assert_close(fast[name], expected, rtol=2e-4, atol=2e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("ops", OPS)
def test_dropout_has_the_gradients_of_plain_torch(ops):
    made = level(6)
    x = torch.randn(3, 4, 4, 6, generator=torch.Generator().manual_seed(0)).to(DEVICE)

    def dropout() -> StepDropout:
        return StepDropout(0.3, torch.Generator(DEVICE).manual_seed(5))

    def plain(x, stack):
        masks, log_det = dropout(), torch.zeros(len(x), device=DEVICE)
        for k in range(len(stack.mix)):
            x = x @ stack.mix[k].T + stack.offset[k]
            kept, moved = x.chunk(2, 3)
            hidden = torch.relu(patches(stack.bounds.squash(kept)) @ stack.w1[k] + stack.b1[k])
            hidden = masks.applied(torch.relu(hidden @ stack.w2[k] + stack.b2[k]))
            scale, shift = (fold(hidden @ stack.w3[k]) + stack.b3[k]).chunk(2, 3)
            scale = stack.bounds.scale(scale)
            x = torch.cat([kept, moved * scale + shift], 3)
            log_det = log_det + torch.log(scale).sum((1, 2, 3))
        return x, log_det

    expected, fast = outcome(made, x, plain), outcome(made, x, fast_runner(torch.float32, ops, dropout()))
    without = outcome(made, x, run_glow_plain)
    assert not torch.allclose(without["z"], expected["z"])
    for name, item in expected.items():
        torch.testing.assert_close(fast[name], item, rtol=2e-4, atol=2e-4 * float(item.abs().max()))


@pytest.mark.parametrize("ops", OPS)
def test_networks_in_bf16_stay_near_float32(ops):
    made = level(8, width=64)
    x = torch.randn(4, 4, 4, 8, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    plain, fast = outcome(made, x, run_glow_plain), outcome(made, x, fast_runner(torch.bfloat16, ops))
    for name, expected in plain.items():
        assert float((fast[name] - expected).norm() / expected.norm()) < 0.2, name
    assert float((fast["log_det"] - plain["log_det"]).abs().max()) < 0.02 * x[0].numel()


@pytest.mark.parametrize(("channels", "height", "width"), [(4, 4, 4), (6, 2, 6), (12, 3, 5), (4, 2, 2)])
@pytest.mark.parametrize("size", [2**20, 40])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_steps_in_planes_are_the_plain_steps_there_and_back(channels, height, width, size, bounds, monkeypatch):
    monkeypatch.setattr("hardpan.flows.planes.BLOCK_PLACES", size)
    monkeypatch.setattr("hardpan.flows.planes.HIDDEN_NUMBERS", size)
    made, x = level(channels, bounds=bounds).cpu(), torch.randn(7, height, width, channels)
    with torch.no_grad():
        stack = made.stack()
        wanted, log_det = run_glow_plain(x, stack)
        found, found_log_det = run_in_planes(x, stack)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found_log_det, log_det, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(invert_in_planes(made, found), x, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(invert_in_planes(made, x), made.inverse(x), rtol=1e-4, atol=1e-4)


def test_with_gradients_the_plain_steps_run():
    made, x = level(4).cpu(), torch.randn(3, 4, 4, 4, requires_grad=True)
    output, log_det = run_in_planes(x, made.stack())
    (output.sum() + log_det.sum()).backward()
    assert x.grad is not None
    assert made.w1.grad is not None


def test_patches_and_fold_are_the_convolution():
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(2, 5, 4, 3, generator=generator), torch.randn(7, 3, 3, 3, generator=generator)
    exact = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), weight, padding=1).permute(0, 2, 3, 1)
    taps = [weight[:, :, 1 + i, 1 + j] for i, j in TAPS]
    torch.testing.assert_close(patches(x) @ torch.cat(taps, 1).T, exact)
    torch.testing.assert_close(fold(x @ torch.cat(taps, 0).T), exact)


@pytest.mark.parametrize("bounds", [GlowBounds(), GlowBounds(0.05, 2.0)])
def test_a_scale_is_bounded_on_both_sides(bounds):
    scale = bounds.scale(torch.tensor([-1e4, -3.0, 0.0, 3.0, 1e4]))
    assert float(scale.min()) == pytest.approx(bounds.least)
    assert float(scale.max()) == pytest.approx(bounds.most)
    assert float(scale[2]) == pytest.approx(1.0)
    assert bool((scale.diff() > 0).all())


def test_what_a_network_sees_is_bounded_and_nearly_true_near_zero():
    bounds, z = GlowBounds(reach=4.0), torch.tensor([-1e9, -4.0, 0.0, 0.1, 4.0, 1e9], dtype=torch.float64)
    torch.testing.assert_close(
        bounds.squash(z), torch.tensor([-4, -(8**0.5), 0, 0.1, 8**0.5, 4]).double(), atol=1e-4, rtol=0
    )
    z.requires_grad_()
    (slope,) = torch.autograd.grad(bounds.squash(z).sum(), z)
    torch.testing.assert_close(bounds.squash_slope(z), slope)
    assert GlowBounds(reach=0.0).squash(z) is z


def test_values_unlike_any_in_training_grow_by_their_scales_alone():
    """Through random couplings, both ways, a runaway ends a thousand times nearer with bounds than without."""
    tame, wild = (
        level(4, steps=12, width=32, bounds=bounds).cpu() for bounds in (GlowBounds(), GlowBounds(0.05, 3.0, 0.0))
    )
    x = 100 * torch.randn(50, 4, 4, 4, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for made in (tame, wild):
            made.w3.normal_(0, 0.3, generator=torch.Generator().manual_seed(2))
        assert float(run_glow_plain(x, tame.stack())[0].abs().max()) < 1e-3 * float(
            run_glow_plain(x, wild.stack())[0].abs().max()
        )
        assert float(tame.inverse(x).abs().max()) < 1e-3 * float(wild.inverse(x).abs().max())


def test_the_first_batch_sets_the_actnorms():
    made = level(4, steps=3)
    x = 5 + 3 * torch.randn(200, 4, 4, 4, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    made.start(x)
    stack = made.stack()
    for k in range(3):
        normed = (x + made.bias[k]) * torch.exp(made.log_scale[k])
        torch.testing.assert_close(normed.mean((0, 1, 2)), torch.zeros(4, device=DEVICE), atol=1e-3, rtol=0)
        torch.testing.assert_close(normed.std((0, 1, 2)), torch.ones(4, device=DEVICE), atol=1e-2, rtol=0)
        x = run_glow_plain(x, stack[k : k + 1])[0].detach()
