"""A fitted flow: exact densities, posteriors, samples, the Bayes error behind them, and its files.

A flow on disk is ``weights.safetensors`` and ``flow.json``, which has the hash of the weights and is written last.
Bundled flows, at most 4 MB each, are folders of ``zoo``, with a model card (``card.md``) that
``reproductions/flow_cards.py`` writes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from hardpan import arguments, bayes, files, stats
from hardpan.arguments import one_of, real_number, whole_number
from hardpan.bayes.gaussians.temperature import TemperatureCurve
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.flows.config import FlowConfig
from hardpan.flows.glow import Glow
from hardpan.flows.network import FlowNetwork, build
from hardpan.flows.planes import invert_in_planes, run_in_planes
from hardpan.flows.scaling import ImageScaling, rebuild_scaling
from hardpan.report import Report

BLOCK = 1024  # rows drawn or carried at once; part of what a seed means, so it stays as it is
CARD, WEIGHTS = "flow.json", "weights.safetensors"
ZOO = Path(__file__).resolve().parent / "zoo"
PRECISIONS = {"float32": torch.float32, "float16": torch.float16}  # of saved weights


class Samples(NamedTuple):
    """What a flow drew: x in data units (float32), classes y, and the exact posterior p(y | x), (N, K)."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    posterior: NDArray[np.float64]


@record
class FlowRecord(Report):
    """What is known of a flow beside its weights.

    Attributes:
        config: the settings it was fitted with.
        class_names: the K names.
        scaling: what makes the data scaling again.
        fitted: how the fit went: NLL of each part of the data, epochs, seconds, versions.
        floors: Bayes error at temperature 1 after each epoch of the fit.
    """

    config: FlowConfig
    class_names: tuple[str, ...]
    scaling: Mapping[str, Any]
    fitted: Mapping[str, Any] = field(default_factory=dict)
    floors: tuple[Mapping[str, Any], ...] = ()


class Flow:
    """A flow with class-conditional Gaussian base.

    x = T(z), z_top ~ N(μ_y, τ²Σ), the other latents N(0, τ²), y ~ π. T is invertible, so the Bayes error of (x, y)
    is that of the Gaussians (Theisen et al. 2021, Proposition 1), and posteriors are exact. The temperature τ
    scales all latents alike.

    Densities are in nats, with the data's own unit as unit of length (one grey level for integer images): see
    :mod:`hardpan.flows.scaling`. Integer input is dequantised with uniform noise from ``seed``; float input is
    taken as it is. Images may be given in their own size or padded, as samples come.

    Example:
        >>> from hardpan import Dataset, flows
        >>> flow = flows.fit(Dataset.open("digits"), flows.FlowConfig(preset="tiny", epochs=1))
        >>> x, y = flow.sample(3, temperature=0.7, seed=1)
        >>> x.shape, y.shape, flow.posterior(x).shape
        ((3, 8, 8), (3,), (3, 10))
    """

    def __init__(self, network: FlowNetwork, record: FlowRecord) -> None:
        self.network = network.eval()
        self.record = record
        if isinstance(network.transform, Glow):
            network.transform.runner, network.transform.inverter = run_in_planes, invert_in_planes

    def __repr__(self) -> str:
        data, shape = self.record.fitted.get("dataset", "data"), " × ".join(map(str, self.input_shape))
        return f"Flow(of {data}, {self.n_classes} classes, examples of {shape})"

    @property
    def config(self) -> FlowConfig:
        """The settings that it was fitted with."""
        return self.record.config

    @property
    def class_names(self) -> tuple[str, ...]:
        """The K names."""
        return self.record.class_names

    @property
    def n_classes(self) -> int:
        """K."""
        return self.network.base.n_classes

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one example of the data that it was fitted to."""
        return tuple(self.network.scaling.data_shape)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample: that of the data, or of the padded image."""
        return tuple(self.network.scaling.sample_shape)

    @property
    def grey_levels(self) -> int | None:
        """Levels of the images that it was fitted to (None: vectors)."""
        return self.network.scaling.levels

    @property
    def dimension(self) -> int:
        """How many numbers the density is over (padding included, constant features not)."""
        return self.network.scaling.dimension

    @property
    def priors(self) -> NDArray[np.float64]:
        """π, (K,): class proportions of the training examples."""
        exact = np.exp(_flow_array(self.network.base.log_priors).astype(np.float64))
        return np.asarray(exact / exact.sum())

    @property
    def means(self) -> NDArray[np.float64]:
        """μ, (K, d_top)."""
        return _flow_array(self.network.base.means).astype(np.float64)

    @property
    def variances(self) -> NDArray[np.float64]:
        """diag Σ, (d_top,), or (K, d_top) with one covariance per class."""
        result = np.exp(2 * _flow_array(self.network.base.log_scales).astype(np.float64))
        return np.asarray(result if self.class_covariances else result[0])

    @property
    def class_covariances(self) -> bool:
        """Whether each class has its own covariance."""
        return len(self.network.base.log_scales) > 1

    def bayes_error(self, temperature: float = 1.0, *, rtol: float = 1e-3, seed: int = 0) -> Estimate:
        """The exact Bayes error of the flow's own distribution, up to the stated error of integration.

        That it is also the data's is an assumption; see ``hardpan floor``.
        """
        return bayes.gaussian(self.means, priors=self.priors, temperature=temperature, rtol=rtol, seed=seed,
                              **self._covariance())  # fmt: skip

    def bayes_curve(self, temperatures: Sequence[float], *, rtol: float = 1e-3, seed: int = 0) -> TemperatureCurve:
        """The Bayes error at several temperatures, from common draws."""
        return bayes.gaussian_curve(self.means, priors=self.priors, temperatures=temperatures, rtol=rtol, seed=seed,
                                    **self._covariance())  # fmt: skip

    def temperature_for(self, error: float, *, seed: int = 0) -> float:
        """The temperature with this Bayes error; see :func:`hardpan.bayes.temperature_for`."""
        return bayes.temperature_for(self.means, priors=self.priors, error=error, seed=seed, **self._covariance())

    def chosen_temperature(self, bayes_error: float | None, temperature: float = 1.0) -> float:
        """The temperature with a Bayes error; without one, the temperature itself."""
        if bayes_error is None:
            return temperature
        if temperature != 1.0:
            raise InputError(
                f"exclude each other; got {bayes_error:g} and {temperature:g}: use one",
                argument=("bayes_error", "temperature"),
            )
        return self.temperature_for(bayes_error)

    @torch.no_grad()
    def log_joint(self, x: ArrayLike, *, temperature: float = 1.0, seed: int = 0) -> NDArray[np.float64]:
        """log π_k p_k(x) in nats for every class, (N, K)."""
        real_number("temperature", temperature, "(0, inf)")
        parts = []
        for ready, log_q in self._blocks(x, seed):
            latents = self.network.latents(ready)
            latents = latents._replace(log_det=latents.log_det - log_q)
            parts.append(_flow_array(self.network.base.log_joint(latents, temperature)))
        return np.concatenate(parts) if parts else np.zeros((0, self.n_classes))

    def log_prob(
        self, x: ArrayLike, y: ArrayLike | None = None, *, temperature: float = 1.0, seed: int = 0
    ) -> NDArray[np.float64]:
        """log p(x | y) in nats, (N,); without y, log p(x) = log Σ_k π_k p_k(x)."""
        joint = self.log_joint(x, temperature=temperature, seed=seed)
        if y is None:
            return np.asarray(np.logaddexp.reduce(joint, axis=1))
        labels = arguments.labels("y", y, len(joint), self.n_classes)
        return np.asarray(joint[np.arange(len(joint)), labels] - np.log(self.priors)[labels])

    @torch.no_grad()
    def posterior(self, x: ArrayLike, *, temperature: float = 1.0, seed: int = 0) -> NDArray[np.float64]:
        """p(y | x) of the flow's own distribution at a temperature, (N, K): softmax of the joint log-densities."""
        real_number("temperature", temperature, "(0, inf)")
        base = self.network.base
        parts = [
            _flow_array(torch.softmax(base.log_class(self.network.top(ready), temperature), 1))
            for ready, _ in self._blocks(x, seed)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.n_classes))

    def nll(self, x: ArrayLike, y: ArrayLike, *, draws: int = 1, seed: int = 0) -> Estimate:
        """Mean of −log π_y p_y(x) in nats per example (the paper's Eq. 15), dequantised, in float32.

        For integers this is an upper bound of the discrete −log P(x, y). Several draws u_s of the noise, from its
        density q, tighten it (Burda et al. 2016): −log (1/S) Σ_s π_y p_y(x + u_s) / q(u_s | x).

        Args:
            x: (N, ...) examples.
            y: (N,) class numbers.
            draws: S, of the noise of integers.
            seed: of the noise.
        """
        whole_number("draws", draws, 1)
        labels, total = None, np.zeros(0)
        for draw in range(draws):
            joint = self.log_joint(x, seed=seed + draw)
            if labels is None:
                labels = arguments.labels("y", y, len(joint), self.n_classes)
                total = np.full(len(joint), -np.inf)
            total = np.logaddexp(total, joint[np.arange(len(joint)), labels])
        if not len(total):
            raise InputError("x has no rows; pass at least one")
        values = math.log(draws) - total
        method = "mean of −log π_y p_y(x), nats per example" + (
            f", {draws} draws of the noise" if draws > 1 else ""
        )
        return stats.mean(values, method=method, seed=seed)

    def bits_per_dimension(self, nll: float) -> float:
        """A negative log-likelihood in nats per example as bits per dimension."""
        return nll / (math.log(2) * self.dimension)

    def sample(
        self, n: int, temperature: float = 1.0, seed: int = 0
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Draw n examples: x (n, ...) in data units, not rounded, and classes y (n,)."""
        result = self.sample_with_posterior(n, temperature=temperature, seed=seed)
        return result.x, result.y

    @torch.no_grad()
    def sample_with_posterior(self, n: int, temperature: float = 1.0, seed: int = 0) -> Samples:
        """Draw n examples with the exact posterior of each, computed where they are drawn: in the base space.

        Rows i·1024 to (i + 1)·1024 come from ``default_rng([seed, i])``: a longer draw begins like a shorter one.
        """
        real_number("temperature", temperature, "(0, inf)")
        whole_number("n", n)
        whole_number("seed", seed)
        xs, ys, posteriors = [], [], []
        for block in range(-(-int(n) // BLOCK)):
            z_top, z_rest, y = self._draw(np.random.default_rng([seed, block]), temperature)
            rows = slice(0, min(BLOCK, n - block * BLOCK))
            top, rest = self._tensor(z_top[rows]), self._tensor(z_rest[rows])
            x = self.network.data(top, rest)
            if not bool(torch.isfinite(x).all()):
                raise InputError(f"temperature {temperature:g} gives values that are not finite; use a smaller one")
            xs.append(_flow_array(x))
            ys.append(y[rows])
            posteriors.append(_flow_array(torch.softmax(self.network.base.log_class(top, temperature), 1)))
        if not xs:
            empty = np.zeros((0, *self.sample_shape), np.float32)
            return Samples(empty, np.zeros(0, np.int64), np.zeros((0, self.n_classes)))
        return Samples(np.concatenate(xs), np.concatenate(ys), np.concatenate(posteriors))

    def save(self, folder: str | os.PathLike[str], *, precision: str = "float32") -> Path:
        """Write the flow into a folder; "float16" halves the file and rounds the weights of the transform.

        What is read back from float32 gives the same bits; from float16 it is a flow of its own, exact in itself.
        """
        one_of("precision", precision, PRECISIONS)
        path = arguments.as_path("folder", folder)
        dtype = PRECISIONS[precision]
        # The base is small, and the Bayes error is made of it: it stays as it is.
        tensors = {
            name: value.detach().cpu().to(dtype if rounded else value.dtype).contiguous()
            for name, value in self.network.state_dict().items()
            for rounded in [value.is_floating_point() and not name.startswith(("base.", "scaling."))]
        }
        content = tensors_to_bytes(tensors)
        card = {"weights": WEIGHTS, "sha256": hashlib.sha256(content).hexdigest(), "precision": precision}
        try:
            path.mkdir(parents=True, exist_ok=True)
            files.write_bytes(path / WEIGHTS, content)
            files.write_text(path / CARD, files.json_text(files.to_json(self.record) | {"file": card}) + "\n")
        except OSError as error:
            raise InputError(
                f"{path}: cannot be written ({error.strerror or error}); use another folder"
            ) from error
        return path

    def to(self, device: str | torch.device) -> Flow:
        """The same flow with its weights on another device."""
        self.network.to(device)
        return self

    def _draw(
        self, rng: np.random.Generator, temperature: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        y = rng.choice(self.n_classes, size=BLOCK, p=self.priors).astype(np.int64)
        scale = np.sqrt(self.variances)
        scale = scale[y] if self.class_covariances else scale
        top = self.means[y] + temperature * scale * rng.standard_normal((BLOCK, self.network.transform.d_top))
        return top, temperature * rng.standard_normal((BLOCK, self.network.transform.d_rest)), y

    @torch.no_grad()
    def _blocks(self, x: ArrayLike, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows of x, dequantised where they are integers, and log q of the noise, 0 where it is uniform."""
        array = np.asarray(x)
        if array.ndim < 2 or not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
            raise InputError(
                f"must hold numbers of shape (N, {', '.join(map(str, self.input_shape))}); "
                f"got {array.dtype} of shape {array.shape}",
                argument="x",
            )
        whole_number("seed", seed)
        bad = np.flatnonzero(~np.isfinite(array).all(axis=tuple(range(1, array.ndim))))
        if len(bad):
            raise InputError(
                f"must be finite; row {bad[0]} has NaN or infinity: drop or fill such rows", argument="x"
            )
        scaling = self.network.scaling
        learned_noise = self.network.dequantizer is not None and not np.issubdtype(array.dtype, np.floating)
        for start in range(0, len(array), BLOCK):
            rng = np.random.default_rng([seed, start // BLOCK])
            rows = array[start : start + BLOCK]
            if learned_noise and isinstance(scaling, ImageScaling):
                integers = self._tensor(scaling.padded(rows))
                yield self.network.dequantized(integers, self._tensor(rng.random(integers.shape)))
            else:
                yield self._tensor(scaling.continuous(rows, rng)), torch.zeros(())

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        with np.errstate(over="ignore"):  # what single precision cannot hold is infinite, and told as such
            ready = np.ascontiguousarray(array, dtype=np.float32)
        return torch.from_numpy(ready).to(self.network.base.log_priors.device)

    def _covariance(self) -> dict[str, Any]:
        return {"covs" if self.class_covariances else "cov": self.variances}


def _flow_array(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().cpu().numpy())


# What bounded a coupling before these were settings: flows that were saved then are read with them.
BEFORE_SETTINGS = {"least_scale": 0.05, "most_scale": 1.0, "reach": 0.0}


def load(path_or_name: str | os.PathLike[str]) -> Flow:
    """Read a flow from a folder that :meth:`Flow.save` wrote, or a bundled flow by its name.

    Raises:
        InputError: there is no such flow, or its files are not what was written.
    """
    path = _flow_folder(path_or_name)
    try:
        card = json.loads((path / CARD).read_text(encoding="utf-8"))
        file = card.pop("file")
        for name, value in BEFORE_SETTINGS.items():
            card["config"].setdefault(name, value)
        content = (path / WEIGHTS).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); pass the folder of a fit") from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise InputError(f"{path / CARD}: is damaged ({type(error).__name__}); fit the flow again") from error
    if not isinstance(file, dict) or hashlib.sha256(content).hexdigest() != file.get("sha256"):
        raise InputError(f"{path / WEIGHTS}: does not match {CARD}; copy both files together")
    record = files.from_json(card, path)
    if not isinstance(record, FlowRecord):
        raise InputError(f"{path / CARD}: holds a {type(record).__name__}, not a flow; pass the folder of a fit")
    try:
        stored = tensors_from_bytes(content)
        tensors = {name: value.float() if value.is_floating_point() else value for name, value in stored.items()}
        priors = torch.exp(tensors["base.log_priors"])
        network = build(record.config.filled(), rebuild_scaling(dict(record.scaling)), priors)
        network.load_state_dict(tensors)
    except (SafetensorError, AttributeError, KeyError, RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InputError(f"{path}: card and weights do not fit each other ({type(error).__name__})") from error
    return Flow(network, record)


def weights_hash(path_or_name: str | os.PathLike[str]) -> str:
    """The sha256 of a saved flow's weights, as its card says it."""
    path = _flow_folder(path_or_name) / CARD
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["file"]["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is damaged ({type(error).__name__}); fit the flow again") from error


def flow_fingerprint(flow: Flow) -> str:
    """The sha256 of a flow's weights as they are in memory: distinguishes flows that are not files."""
    digest = hashlib.sha256()
    for name, value in sorted(flow.network.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _flow_folder(path_or_name: str | os.PathLike[str]) -> Path:
    path = arguments.as_path("flow", path_or_name)
    if (path / CARD).is_file():
        return path
    if (name := os.fspath(path_or_name)) in bundled_flow_names():
        return ZOO / name
    known = f" nor a bundled flow ({', '.join(bundled_flow_names())})"
    raise InputError(f"flow {name!r} is not a folder with {CARD}{known}; see hardpan flow fit")


def bundled_flow_names() -> tuple[str, ...]:
    """Names of the bundled flows.

    Example:
        >>> "mnist" in bundled_flow_names()
        True
    """
    return tuple(sorted(path.parent.name for path in ZOO.glob(f"*/{CARD}")))
