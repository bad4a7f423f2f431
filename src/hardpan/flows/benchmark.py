"""Synthetic benchmarks: any number of examples from a flow, with a chosen Bayes error and every true posterior."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import files, numbers, stats
from hardpan.errors import HardpanError, InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.files import record
from hardpan.flows import formats
from hardpan.flows.config import SynthesizeConfig
from hardpan.flows.flow import Flow, fingerprint, weights_hash
from hardpan.report.base import Report
from hardpan.safe_files import read_npz

MANIFEST = "manifest.json"
PARTS = ".parts"
BLOCK = 4096  # a multiple of the flow's own block, so that pieces drawn apart are the draw of the whole
CHECK_CONFIDENCE = 0.9999


@record
@dataclass(frozen=True, slots=True, eq=False)
class Benchmark(Report):
    """The manifest of a synthetic benchmark.

    Attributes:
        config: the settings.
        flow: name of the flow, and the dataset that it was fitted to.
        flow_sha256: hash of its weights.
        temperature: the temperature that was drawn at.
        bayes_error: the exact Bayes error of the distribution that was drawn from.
        observed: error of the Bayes-optimal classifier on these very examples.
        rounding: how much the floor rises at most by rounding to 8 bits; None for float32 files.
        class_names: the K names.
        data: the file or folder of the examples, for ``hardpan.Dataset.open``.
        ids: (N,) ids of the examples as they are read from there.
        labels: (N,) the classes that were drawn.
        split: (N,) "train" or "test".
        posterior: (N, K) the true p(y | x) of every example, before any rounding.
        files: sha256 of every file, by name (of the list of them, for a folder of images).
        other_temperatures: other temperatures with the same error; none if all classes share a covariance.
    """

    config: SynthesizeConfig
    flow: str
    flow_sha256: str
    temperature: float
    bayes_error: Estimate
    observed: Estimate
    rounding: Estimate | None
    class_names: tuple[str, ...]
    data: str
    ids: NDArray[np.str_]
    labels: NDArray[np.int64]
    split: NDArray[np.str_]
    posterior: NDArray[np.float64]
    files: Mapping[str, str] = field(default_factory=dict)
    other_temperatures: tuple[float, ...] = ()

    def to_json(self) -> str:
        """The manifest without its arrays, which are in the folder."""
        none = np.zeros(0)
        empty: dict[str, Any] = {
            "ids": none.astype(str),
            "labels": none.astype(np.int64),
            "split": none.astype(str),
        }
        brief = dataclasses.replace(self, **empty, posterior=np.zeros((0, len(self.class_names))))
        return files.dumps(files.to_json(brief))

    @property
    def test(self) -> NDArray[np.int64]:
        """Row numbers of the test set."""
        return np.flatnonzero(self.split == "test")

    @property
    def floor(self) -> Estimate:
        """The floor of the files: the exact one; for 8-bit files, that plus what rounding costs at most."""
        if self.rounding is None:
            return self.bayes_error
        low, cost = self.bayes_error, self.rounding
        return Estimate(
            low.value + cost.value,
            cost.stderr,
            low.low,
            low.high + cost.high,
            method="exact Bayes error before rounding, and what rounding costs at most",
            n=cost.n,
        )


def synthesize(
    flow: Flow,
    out: str | os.PathLike[str],
    config: SynthesizeConfig | None = None,
    *,
    source: str = "",
    progress: Progress | None = None,
    **changes: Any,
) -> Benchmark:
    """Draw a benchmark from a flow and write it, with its manifest, into a folder.

    The temperature is the one with the chosen exact Bayes error; if there are several (one covariance per class),
    the lowest, and the manifest names the others. As it is written, the Bayes-optimal classifier is run on the
    examples: its error count must agree with the exact value (99.99 % Clopper–Pearson interval), else nothing is
    kept. An interrupted call resumes, to the same bytes.

    Args:
        flow: where the examples come from.
        out: the folder; an unfinished benchmark of the same settings in it is finished, a finished one is read.
        config: the settings.
        source: name or folder of the flow, for the manifest and its hash.
        progress: called with a step and the fraction done.
        changes: settings to be changed in ``config``.

    Returns:
        The manifest.
    """
    config = dataclasses.replace(config or SynthesizeConfig(), **changes)
    formats.check(config.format, flow.grey_levels)
    folder = files.as_path("out", out)
    settings = dataclasses.asdict(config) | {"flow": weights_hash(source) if source else fingerprint(flow)}
    if (done := _finished(folder, settings)) is not None:
        return done
    found_at = (config.temperature,) if config.bayes_error is None else flow.temperatures_for(config.bayes_error)
    exact = flow.bayes_error(found_at[0], rtol=1e-4, seed=config.seed)
    parts, tell = _parts(folder, settings), progress or (lambda step, fraction: None)
    try:
        posterior, labels = _drawn(flow, parts, found_at[0], config, tell)
        observed = _checked(parts, posterior, labels, exact)
        cost = None if config.format == "npz" else _rounding_cost(flow, parts, found_at[0], config, tell)
        tell("writing the files", 0.9)
        split = np.repeat(["train", "test"], _sizes(config))
        data, hashes, ids = formats.write(
            config.format, folder, _pieces(parts), labels, split, flow.class_names, flow.grey_levels
        )
        result = Benchmark(
            config, _named(flow, source), settings["flow"], found_at[0], exact, observed, cost, flow.class_names,
            data, ids, labels, split, posterior, hashes, found_at[1:],
        )  # fmt: skip
        files.save(result, folder / MANIFEST)
        shutil.rmtree(parts)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{folder}: cannot be written ({reason}); repeat the call to resume") from error
    return result


def read_benchmark(folder: str | os.PathLike[str]) -> Benchmark:
    """Read the manifest of a benchmark that :func:`synthesize` wrote."""
    place = files.as_path("folder", folder) / MANIFEST
    if not place.is_file():
        raise InputError(
            f"{folder}: has no {MANIFEST}; create one with: hardpan flow synthesize FLOW --out {folder}"
        )
    result = files.load(place)
    if not isinstance(result, Benchmark):
        raise InputError(f"{place}: is a {type(result).__name__}, not a synthetic benchmark")
    return result


def check_draw(posterior: NDArray[np.float64], labels: NDArray[np.int64], exact: Estimate) -> Estimate:
    """Compare a sample with its exact Bayes error: the errors of argmax p(y | x) must agree with it.

    Args:
        posterior: (N, K) true posteriors.
        labels: (N,) the classes that were drawn.
        exact: the exact Bayes error.

    Returns:
        The error of the Bayes-optimal classifier on the sample, with its 99.99 % interval.

    Raises:
        HardpanError: they do not agree, so the flow, its sampler or its posterior is broken.
    """
    wrong, n = int((posterior.argmax(axis=1) != labels).sum()), len(labels)
    method = "Bayes-optimal classifier on the examples, Clopper–Pearson"
    result = stats.share(wrong, n, CHECK_CONFIDENCE, method=method)
    if exact.low > result.high or exact.high < result.low:
        raise HardpanError(
            f"the Bayes-optimal classifier is wrong on {wrong:,} of {n:,} examples, {numbers.estimate(result)} "
            f"with a 99.99 % interval, which is not the exact Bayes error {numbers.percent(exact.value)}; the "
            "flow is numerically broken at this temperature: nothing was written; choose a smaller error"
        )
    return result


def _sizes(config: SynthesizeConfig) -> tuple[int, int]:
    test = min(max(round(config.test_share * config.n), 1), config.n - 1)
    return config.n - test, test


def _named(flow: Flow, source: str) -> str:
    fitted = str(flow.record.fitted.get("dataset", ""))
    return f"{Path(source).name or 'flow'} (fitted to {fitted})" if fitted else Path(source).name or "flow"


def _finished(folder: Path, settings: Mapping[str, Any]) -> Benchmark | None:
    """The benchmark of these settings, where it is there already; another one is not written over."""
    if not (folder / MANIFEST).is_file():
        return None
    result = read_benchmark(folder)
    if dataclasses.asdict(result.config) | {"flow": result.flow_sha256} != dict(settings):
        raise InputError(f"{folder}: has another benchmark; choose another folder, or remove this one")
    for name, expected in result.files.items():
        # A folder of images has one hash over all of them, under a name that is no file's.
        place = folder / (result.data if result.config.format == "png" else name)
        if not place.exists() or (place.is_file() and formats.file_hash(place) != expected):
            raise InputError(f"{place}: is not what {MANIFEST} says; remove {folder} and make it again")
    return result


def _parts(folder: Path, settings: Mapping[str, Any]) -> Path:
    """The folder of unfinished pieces; pieces of other settings are thrown away."""
    parts = folder / PARTS
    wanted = json.dumps(settings, sort_keys=True)
    try:
        if parts.is_dir() and (parts / "settings.json").is_file():
            if (parts / "settings.json").read_text() == wanted:
                return parts
            shutil.rmtree(parts)
        parts.mkdir(parents=True, exist_ok=True)
        files.write_text(parts / "settings.json", wanted)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}); choose another folder") from error
    return parts


def _drawn(
    flow: Flow, parts: Path, temperature: float, config: SynthesizeConfig, tell: Progress
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw what is not drawn yet, a block at a time into a file each; give all posteriors and labels."""
    blocks = -(-config.n // BLOCK)
    for number in range(blocks):
        tell(f"drawing examples {number * BLOCK:,} of {config.n:,}", 0.85 * number / blocks)
        _draw_block(flow, parts, number, temperature, config)
    held = [(block["posterior"], block["y"]) for block in _blocks(parts)]
    return np.concatenate([item[0] for item in held]), np.concatenate([item[1] for item in held])


def _checked(parts: Path, posterior: NDArray[np.float64], labels: NDArray[np.int64], exact: Estimate) -> Estimate:
    try:
        return check_draw(posterior, labels, exact)
    except HardpanError:
        _forget(parts)
        raise


def _rounding_cost(
    flow: Flow, parts: Path, temperature: float, config: SynthesizeConfig, tell: Progress
) -> Estimate:
    tell("measuring what rounding costs", 0.87)
    first = next(_blocks(parts))
    return formats.rounding_cost(flow, first["x"], first["posterior"], temperature=temperature, seed=config.seed)


def _draw_block(flow: Flow, parts: Path, number: int, temperature: float, config: SynthesizeConfig) -> None:
    place = parts / f"{number:06d}.npz"
    if place.is_file():
        return
    rows = min(BLOCK, config.n - number * BLOCK)
    try:
        drawn = flow.sample_with_posterior(rows, temperature=temperature, seed=_block_seed(config.seed, number))
    except HardpanError:  # a temperature that draws no numbers: there is nothing to go on with
        _forget(parts)
        raise
    waiting = parts / f"{number:06d}.writing.npz"
    np.savez(waiting, x=drawn.x, y=drawn.y, posterior=drawn.posterior)
    os.replace(waiting, place)


def _forget(parts: Path) -> None:
    """Remove the pieces, and the folder of the benchmark where nothing else is in it."""
    shutil.rmtree(parts)
    with contextlib.suppress(OSError):
        parts.parent.rmdir()


def _block_seed(seed: int, number: int) -> int:
    """A seed for each block that no other seed and block have."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _blocks(parts: Path) -> Iterator[dict[str, NDArray[Any]]]:
    for place in sorted(parts.glob("[0-9]*[0-9].npz")):
        try:
            stored = read_npz(place)
            block = {name: stored[name] for name in ("x", "y", "posterior")}
        except (InputError, KeyError) as error:
            raise InputError(f"{place}: is damaged; remove it and run the same command again to resume") from error
        yield block


def _pieces(parts: Path) -> Callable[[], Iterator[NDArray[np.float32]]]:
    """The examples, a block at a time, as often as they are asked for."""
    return lambda: (block["x"] for block in _blocks(parts))
