"""What every flow keeps to: a new family joins FAMILIES in small.py and gets all of this."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from tests.flows.small import COUNTS, FAMILIES, FLOATS, GREY, VECTORS, random_flow
from tests.refusals import refused

from hardpan import bayes, flows
from hardpan.errors import InputError


@pytest.fixture(params=FAMILIES, ids=lambda name: name.replace(" ", "-"))
def case(request):
    x, settings = FAMILIES[request.param]
    return random_flow(x, **settings), x


def continuous(flow, x, seed=0):
    return torch.from_numpy(flow.network.scaling.continuous(x, np.random.default_rng(seed)))


def test_there_and_back(case):
    flow, x = case
    ready = continuous(flow, x)
    with torch.no_grad():
        found = flow.network.latents(ready)
        back = flow.network.data(found.top, found.rest)
    used = ready.reshape(len(ready), -1)
    if flow.grey_levels is None:
        back = back[:, flow.network.scaling.used]
    size = float(used.abs().max())
    assert float((back.reshape(len(back), -1) - used).abs().max()) < 1e-4 * size
    drawn = flow.sample(50, temperature=0.9, seed=3)[0]
    top, rest = drawn_latents(flow, 50, 0.9, 3)
    with torch.no_grad():
        again = flow.network.latents(continuous(flow, drawn))
    assert float((again.top - top).abs().max()) < 2e-3
    assert again.rest.shape == rest.shape


def drawn_latents(flow, n, temperature, seed):
    top, rest, _ = flow._draw(np.random.default_rng([seed, 0]), temperature)
    return torch.from_numpy(top[:n]).float(), torch.from_numpy(rest[:n]).float()


def test_log_determinant_is_that_of_the_jacobian(case):
    flow, x = case
    network = flow.network.double()
    ready = continuous(flow, x[:2]).double()
    found = network.latents(ready)

    def carried(flat):
        got = network.latents(flat.reshape(1, *ready.shape[1:]))
        return torch.cat([got.top, got.rest], 1)[0]

    for row in range(1 if flow.dimension > 100 else 2):
        jacobian = torch.autograd.functional.jacobian(carried, ready[row].reshape(-1), vectorize=True)
        exact = torch.linalg.slogdet(jacobian).logabsdet
        assert float(found.log_det[row].detach()) == pytest.approx(float(exact), rel=1e-9, abs=1e-8)


def test_posterior_is_the_softmax_of_joint_log_likelihoods(case):
    flow, x = case
    for temperature in (0.5, 1.0, 3.0):
        joint = flow.log_joint(x, temperature=temperature)
        shifted = np.exp(joint - joint.max(1, keepdims=True))
        posterior = flow.posterior(x, temperature=temperature)
        # Top latents alone are computed in another order: float32 rounding.
        np.testing.assert_allclose(posterior, shifted / shifted.sum(1, keepdims=True), rtol=1e-3, atol=1e-6)
        labels = np.arange(len(x)) % flow.n_classes
        given = flow.log_prob(x, labels, temperature=temperature) + np.log(flow.priors)[labels]
        np.testing.assert_allclose(given, joint[np.arange(len(x)), labels], rtol=1e-9, atol=1e-6)
        np.testing.assert_allclose(
            flow.log_prob(x, temperature=temperature), np.logaddexp.reduce(joint, axis=1), rtol=1e-12
        )


def test_temperature_scales_all_latents_alike(case):
    flow, x = case
    with torch.no_grad():
        found = flow.network.latents(continuous(flow, x))
    top, rest = found.top.double().numpy(), found.rest.double().numpy()
    deviations = np.sqrt(np.broadcast_to(flow.variances, flow.means.shape))
    for tau in (0.4, 1.0, 2.5):
        joint = flow.log_joint(x, temperature=tau)
        for k in range(flow.n_classes):
            exact = math.log(flow.priors[k]) + found.log_det.double().numpy()
            exact = exact + stats.norm.logpdf(top, flow.means[k], tau * deviations[k]).sum(1)
            exact = exact + stats.norm.logpdf(rest, 0, tau).sum(1)
            np.testing.assert_allclose(joint[:, k], exact, rtol=1e-7, atol=1e-4)


def test_bayes_error_is_that_of_the_base(case):
    flow, _ = case
    covariance = {"covs" if flow.class_covariances else "cov": flow.variances}
    for tau in (0.7,):
        exact = bayes.gaussian(flow.means, priors=flow.priors, temperature=tau, rtol=0.02, **covariance)
        assert flow.bayes_error(tau, rtol=0.02) == exact
    curve = flow.bayes_curve([0.7], rtol=0.02)
    assert curve.values[0] == pytest.approx(exact.value, rel=0.1)
    assert (exact.method in ("chernoff", "contour")) == flow.class_covariances


def test_the_bayes_classifier_errs_as_often_as_the_bayes_error_says(case):
    flow, _ = case
    scale = 3.0
    drawn = flow.sample_with_posterior(2000, temperature=scale, seed=5)
    wrong = int((drawn.posterior.argmax(1) != drawn.y).sum())
    error = flow.bayes_error(scale, rtol=0.01)
    low, high = stats.binomtest(wrong, 2000).proportion_ci(0.9999)
    assert low <= error.high
    assert error.low <= high
    np.testing.assert_allclose(drawn.posterior.sum(1), 1)


def test_posteriors_of_samples_are_found_again_from_x(case):
    flow, _ = case
    drawn = flow.sample_with_posterior(64, temperature=1.0, seed=2)
    np.testing.assert_allclose(flow.posterior(drawn.x), drawn.posterior, atol=2e-3)


def test_save_and_load_keep_every_bit(case, tmp_path):
    flow, x = case
    flow.save(tmp_path / "flow")
    again = flows.load(tmp_path / "flow")
    np.testing.assert_array_equal(again.log_joint(x), flow.log_joint(x))
    for one, two in zip(again.sample(7, seed=4), flow.sample(7, seed=4), strict=True):
        np.testing.assert_array_equal(one, two)
    assert again.record == flow.record
    assert again.bayes_error(rtol=0.02) == flow.bayes_error(rtol=0.02)
    flow.save(tmp_path / "half", precision="float16")
    half = flows.load(tmp_path / "half")
    assert half.bayes_error(rtol=0.02) == flow.bayes_error(rtol=0.02)
    size = [(tmp_path / name / "weights.safetensors").stat().st_size for name in ("flow", "half")]
    assert size[1] < size[0]


def test_gradients_reach_every_parameter(case):
    flow, x = case
    network = flow.network.train()
    chosen = torch.eye(flow.n_classes)[torch.arange(len(x)) % flow.n_classes]
    log_joint, log_class = network(continuous(flow, x), chosen)
    (log_joint.mean() + log_class.mean()).backward()
    for name, item in network.named_parameters():
        assert item.grad is not None, name
        if name.endswith(("lower", "upper")):  # only a triangle of these is in use
            continue
        assert bool((item.grad != 0).any()), name
        assert bool(torch.isfinite(item.grad).all()), name


def test_seeds_say_everything(case):
    flow, x = case
    first, second = flow.sample(1030, seed=1), flow.sample(1026, seed=1)
    np.testing.assert_array_equal(first[1][:1026], second[1])
    np.testing.assert_allclose(first[0][:1026], second[0], rtol=1e-3, atol=1e-3)
    assert not np.array_equal(first[1][:1026], flow.sample(1026, seed=2)[1])
    np.testing.assert_array_equal(flow.log_joint(x, seed=3), flow.log_joint(x, seed=3))


def test_the_arguments_of_a_sample_have_an_order(case):
    flow, _ = case
    for one, two in zip(flow.sample(5, 0.6, 3), flow.sample(5, temperature=0.6, seed=3), strict=True):
        np.testing.assert_array_equal(one, two)


def test_nll_is_the_mean_of_minus_the_joint(case):
    flow, x = case
    labels = np.arange(len(x)) % flow.n_classes
    joint = flow.log_joint(x)[np.arange(len(x)), labels]
    found = flow.nll(x, labels)
    assert found.value == pytest.approx(-joint.mean())
    assert found.stderr == pytest.approx(joint.std(ddof=1) / math.sqrt(len(x)))
    assert found.n == len(x)
    assert flow.bits_per_dimension(math.log(2) * flow.dimension) == pytest.approx(1)


@pytest.mark.parametrize("class_covariances", [False, True])
def test_densities_of_two_features_integrate_to_one(class_covariances):
    x = np.random.default_rng(0).normal(size=(100, 2))
    flow = random_flow(x, size=0.2, class_covariances=class_covariances)
    edge, n = 9.0, 400
    grid = (np.arange(n) + 0.5) / n * 2 * edge - edge
    points = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
    mass = np.exp(flow.log_prob(points, temperature=0.9)).sum() * (2 * edge / n) ** 2
    assert mass == pytest.approx(1.0, abs=2e-3)


def test_density_of_a_two_by_two_image_integrates_to_one():
    """Four dimensions: an importance-weighted mean over a wide Gaussian instead of a grid."""
    x = np.random.default_rng(0).random((50, 2, 2)).astype(np.float32)
    flow = random_flow(x, levels=1, steps=2, size=0.2)
    drawn, _ = flow.sample(20_000, seed=1)
    centre, spread = drawn.reshape(-1, 4).mean(0), np.cov(drawn.reshape(-1, 4).T) * 2
    proposal = stats.multivariate_t(centre, spread, df=5, seed=2)
    points = proposal.rvs(60_000).astype(np.float32)
    weights = np.exp(flow.log_prob(points.reshape(-1, 2, 2)) - proposal.logpdf(points))
    assert weights.mean() == pytest.approx(1.0, abs=5 * weights.std() / math.sqrt(len(weights)))
    assert weights.std() / math.sqrt(len(weights)) < 0.02


def test_temperature_for_inverts_the_bayes_error():
    flow = random_flow(GREY, size=0.05)
    for error in (0.01, 0.3):
        tau = flow.temperature_for(error)
        assert isinstance(tau, float)
        assert flow.bayes_error(tau).value == pytest.approx(error, rel=5e-3)
    with pytest.raises(InputError, match=r"\berror\b"):
        flow.temperature_for(0.9)


def planted(means, deviations, priors):
    """A flow whose classes were put in place by hand, each with its own diagonal covariance."""
    means, deviations = np.asarray(means, dtype=np.float32), np.asarray(deviations, dtype=np.float32)
    x = np.random.default_rng(0).normal(size=(50, means.shape[1]))
    flow = random_flow(x, n_classes=len(means), class_covariances=True)
    base = flow.network.base
    with torch.no_grad():
        base.set_means(torch.from_numpy(means))
        base.log_scales.copy_(torch.log(torch.from_numpy(deviations)))
        base.log_priors.copy_(torch.log(torch.tensor(priors)))
    return flow


def test_with_a_covariance_a_class_the_dial_is_that_of_the_planted_classes():
    """Concentric classes N(0, 1) and N(0, 16): one error at every temperature, in closed form."""
    flow = planted([[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [4.0, 4.0]], [0.5, 0.5])
    # They are equal where ρ² (1 − 1/16) = 4 log 4; ρ² is a χ² of two degrees times the variance.
    edge = 4 * math.log(4) / (1 - 1 / 16)
    exact = 0.5 * stats.chi2.sf(edge, 2) + 0.5 * stats.chi2.cdf(edge / 16, 2)
    for found in flow.bayes_curve([0.1, 1.0, 30.0]).estimates:
        # The flow keeps means and scales in single precision.
        assert found.low * (1 - 1e-6) <= exact <= found.high * (1 + 1e-6)
    with pytest.raises(InputError, match=r"\berror\b"):
        flow.temperature_for(exact / 2)


def test_with_a_covariance_a_class_the_planted_temperature_is_given():
    """Three classes whose error rises from 0 to that of equal means: the one root is the planted temperature.

    With diagonal covariances, the only ones a flow has, E(τ) cannot fall.
    """
    flow = planted([[0, 2], [2, 0], [-2, -2]], [[4, 0.5], [0.5, 4], [1, 1]], [0.2, 0.3, 0.5])
    curve = flow.bayes_curve(np.geomspace(0.1, 100, 7))
    for before, after in itertools.pairwise(curve.estimates):
        assert after.value >= before.value - 4 * math.hypot(before.stderr, after.stderr)
    for tau in (0.4, 2.7):
        assert flow.temperature_for(flow.bayes_error(tau, rtol=2e-4).value) == pytest.approx(tau, rel=0.02)


def test_padding_and_levels_are_in_the_density():
    """A flow on padded images takes them in both sizes, and one level is one unit of length."""
    x = np.random.default_rng(0).integers(0, 256, (30, 6, 6)).astype(np.uint8)
    flow = random_flow(x, pad_to=8)
    assert flow.input_shape == (6, 6)
    assert flow.sample_shape == (8, 8)
    assert flow.dimension == 64
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    np.testing.assert_array_equal(flow.log_joint(x), flow.log_joint(padded))
    exact = continuous(flow, padded).numpy()[..., 0]
    np.testing.assert_array_equal(flow.log_joint(padded), flow.log_joint(exact))
    assert flow.network.scaling.log_det() == pytest.approx(-64 * math.log(256))


def test_constant_features_are_left_out_and_come_back():
    flow = random_flow(VECTORS)
    assert flow.dimension == 4
    drawn, _ = flow.sample(20)
    assert drawn.shape == (20, 5)
    np.testing.assert_allclose(drawn[:, 3], 7.0)
    other = VECTORS.copy()
    other[:, 3] = -1
    np.testing.assert_array_equal(flow.log_joint(other), flow.log_joint(VECTORS))


def test_whole_numbers_are_dequantised():
    flow = random_flow(COUNTS)
    noisy = COUNTS + np.random.default_rng([0, 0]).random(COUNTS.shape)
    np.testing.assert_allclose(flow.log_joint(COUNTS), flow.log_joint(noisy), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda flow: flow.log_prob(np.zeros((3, 5, 5))), "x"),
        (lambda flow: flow.log_prob(np.array(["a"])), "x"),
        (lambda flow: flow.log_prob(GREY, [0, 1]), "y"),
        (lambda flow: flow.log_prob(GREY, [7] * 40), "y"),
        (lambda flow: flow.posterior(GREY, temperature=0), "temperature"),
        (lambda flow: flow.posterior(GREY * np.nan), "x"),
        (lambda flow: flow.log_prob(np.where(GREY > 0, np.inf, GREY), [0] * len(GREY)), "x"),
        (lambda flow: flow.posterior(GREY, temperature=float("nan")), "temperature"),
        (lambda flow: flow.sample(-1), "n"),
        (lambda flow: flow.sample(3, seed=-1), "seed"),
        (lambda flow: flow.sample(3, seed=0.5), "seed"),
        (lambda flow: flow.posterior(GREY, seed=-1), "seed"),
        (lambda flow: flow.nll(GREY[:0], []), "y"),
    ],
)
def test_bad_input_is_refused_by_its_name(call, argument):
    with refused(argument):
        call(random_flow(GREY))


def test_empty_draws_and_rows_are_fine():
    flow = random_flow(FLOATS)
    x, y = flow.sample(0)
    assert x.shape == (0, 4, 4)
    assert y.shape == (0,)
    assert flow.posterior(x).shape == (0, 3)
