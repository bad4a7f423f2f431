"""``hardpan bayes``: exact Bayes errors of Gaussian classes from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hardpan import files
from hardpan.bayes import (
    METHODS,
    Curve,
    gaussian_curve,
    gaussian_detail,
    temperature_for,
    temperatures_for,
)
from hardpan.bayes.gaussians.temperature import Temperatures
from hardpan.cli.common import JsonFlag, OutFolder, Seed, emit, emit_report, floats, progress_on_stderr
from hardpan.errors import InputError
from hardpan.files import record
from hardpan.safe_files import read_npy

LINE_POINTS = 41
LINE_RTOL = 0.01  # a line on a page needs no more

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Exact Bayes errors of Gaussian classes.")

Means = Annotated[Path, typer.Argument(metavar="MEANS", help="Class means, a .npy file of shape (K, d).")]
Cov = Annotated[
    str | None,
    typer.Option("--cov", help="One covariance for all: a number, or a .npy file of shape (d,) or (d, d)."),
]
Covs = Annotated[
    str | None,
    typer.Option("--covs", help="One covariance per class: a .npy file of shape (K,), (K, d) or (K, d, d)."),
]
Priors = Annotated[
    str | None, typer.Option("--priors", help="Class priors: numbers with commas, or a .npy file of shape (K,).")
]
Rtol = Annotated[
    float, typer.Option("--rtol", help="Draw until the standard error is below this fraction of the value.")
]


@record
@dataclass(frozen=True, slots=True)
class GaussianConfig:
    """The settings of ``hardpan bayes gaussian``, saved beside every page."""

    means: str
    cov: str | None
    covs: str | None
    priors: str | None
    temperatures: tuple[float, ...]
    method: str
    rtol: float
    seed: int


@app.command("gaussian")
def gaussian_command(
    means: Means,
    cov: Cov = None,
    covs: Covs = None,
    priors: Priors = None,
    temperature: Annotated[
        str, typer.Option("--temperature", help="One temperature, or several with commas: a curve.")
    ] = "1",
    method: Annotated[str, typer.Option("--method", help=f"One of {', '.join(METHODS)}.")] = "auto",
    rtol: Rtol = 1e-3,
    seed: Seed = 0,
    out: OutFolder = None,
    json: JsonFlag = False,
) -> None:
    """The Bayes error of Gaussian classes, at one temperature or along several.

    Example: [bold]hardpan bayes gaussian means.npy --cov cov.npy --temperature 0.2,1,1.4,3 --out dial[/bold]
    """
    from hardpan.report.files import check_writable

    config = GaussianConfig(str(means), cov, covs, priors, floats("--temperature", temperature), method, rtol, seed)
    if out is not None:
        check_writable(out)
    rows, shared, each = _load("MEANS", means), _array("--cov", cov), _array("--covs", covs)
    weights = _array("--priors", priors)

    def errors(temperatures: Sequence[float], rtol: float) -> Curve:
        return gaussian_curve(
            rows, shared, weights, temperatures=temperatures, covs=each, method=method, rtol=rtol, seed=seed
        )

    with progress_on_stderr() as progress:
        progress("integrating", 0.0)
        curve = errors(config.temperatures, rtol)
        if out is not None:
            progress("integrating between the temperatures", 0.5)
            line = errors(_between(curve.temperatures), max(rtol, LINE_RTOL))
            curve = replace(curve, line=line, hashes={"means, sha256": files.array_hash(rows)})
    settings = {"config.json": files.dumps(files.to_json(config)) + "\n"}
    if json and out is None and len(curve.estimates) == 1:
        emit(curve.estimates[0], json)
    else:
        emit_report(curve, json=json, out=out, extra=settings)


@app.command("temperature")
def temperature_command(
    means: Means,
    error: Annotated[
        float, typer.Option("--bayes-error", help="The target Bayes error, a fraction between 0 and 1.")
    ],
    cov: Cov = None,
    covs: Covs = None,
    priors: Priors = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """The temperature at which Gaussian classes have a target Bayes error (with --covs: every such temperature).

    Example: [bold]hardpan bayes temperature means.npy --bayes-error 0.1[/bold]
    """
    rows, shared, each = _load("MEANS", means), _array("--cov", cov), _array("--covs", covs)
    weights = _array("--priors", priors)
    if shared is not None and each is not None:
        raise InputError("--cov and --covs exclude each other; got both: use --covs for one covariance per class")
    with progress_on_stderr() as progress:
        progress("searching", 0.0)
        if each is not None:
            result = temperatures_for(rows, each, weights, error=error, seed=seed)
        else:
            result = (temperature_for(rows, shared, weights, error=error, seed=seed),)
    emit_report(Temperatures(error, result), json=json)


@app.command("detail")
def detail_command(
    means: Means,
    cov: Cov = None,
    priors: Priors = None,
    temperature: Annotated[float, typer.Option("--temperature", help="The temperature.")] = 1.0,
    rtol: Rtol = 1e-3,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """Errors by class, confusions, top-k errors and the slope of the Bayes classifier of Gaussian classes.

    Example: [bold]hardpan bayes detail means.npy --cov cov.npy[/bold]
    """
    rows, shared, weights = _load("MEANS", means), _array("--cov", cov), _array("--priors", priors)
    with progress_on_stderr() as progress:
        progress("integrating", 0.0)
        result = gaussian_detail(rows, shared, weights, temperature=temperature, rtol=rtol, seed=seed)
    emit_report(result, json=json)


def _load(name: str, path: Path) -> NDArray[Any]:
    """A .npy file, mapped into memory and never unpickled."""
    try:
        return read_npy(path, mmap=True)
    except InputError as error:
        raise InputError(f"{name} {error}") from error


def _array(option: str, text: str | None) -> NDArray[Any] | None:
    """Numbers with commas between them (one number: a scalar), or a .npy file."""
    if text is None:
        return None
    if Path(text).suffix == ".npy" or Path(text).exists():
        return _load(option, Path(text))
    try:
        values = [float(piece) for piece in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option} must be numbers with commas between them or a .npy file; got {text!r}"
        ) from None
    return np.array(values[0] if len(values) == 1 and option == "--cov" else values)


def _between(temperatures: Sequence[float]) -> list[float]:
    """Temperatures dense enough for a smooth line through the requested ones; a decade around a single one."""
    low, high = min(temperatures), max(temperatures)
    if low == high:
        low, high = low / 3, high * 3
    return [float(t) for t in np.unique(np.append(np.geomspace(low, high, LINE_POINTS), temperatures))]
