"""``hardpan bayes``: exact Bayes errors of Gaussian classes from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hardpan import files
from hardpan.bayes import METHODS, gaussian_curve, gaussian_detail, temperature_for, temperatures_for
from hardpan.bayes.gaussians.temperature import Curve, Temperatures
from hardpan.cli.common import JsonFlag, OutFolder, Seed, check_out, emit_report, progress_on_stderr
from hardpan.cli.options import Flags, printing, spread
from hardpan.errors import InputError
from hardpan.files import record
from hardpan.report.base import Report
from hardpan.safe_files import read_npy

LINE_POINTS = 41
LINE_RTOL = 0.01  # a line on a page needs no more

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Exact Bayes errors of Gaussian classes.")


@dataclass(frozen=True, slots=True)
class GaussianClasses:
    """Files and numbers that say what the classes are.

    Attributes:
        cov: one covariance for all classes: a number, or a .npy file of shape (d,) or (d, d); default: identity.
        covs: one covariance per class: a .npy file of shape (K,), (K, d) or (K, d, d).
        priors: class priors: numbers separated by commas, or a .npy file of shape (K,); default: equal.
    """

    means: Annotated[str, typer.Argument(metavar="MEANS", help="Class means, a .npy file of shape (K, d).")]
    cov: str | None = None
    covs: str | None = None
    priors: str | None = None

    def read(self) -> dict[str, NDArray[Any] | None]:
        """The arrays, as the functions of :mod:`hardpan.bayes` call them."""
        if self.cov is not None and self.covs is not None:
            raise InputError(
                "must not both be given; use covs for one covariance per class", argument=("cov", "covs")
            )
        arrays = {"cov": self.cov, "covs": self.covs, "priors": self.priors}
        return {"means": _load("MEANS", Path(self.means))} | {
            name: _array(f"--{name}", text) for name, text in arrays.items()
        }


@record
class GaussianConfig:
    """The settings of ``hardpan bayes gaussian``, saved beside every page.

    Attributes:
        temperatures: one temperature, or several separated by commas for a curve.
        rtol: relative standard error to reach.
    """

    means: str = ""
    cov: str | None = None
    covs: str | None = None
    priors: str | None = None
    temperatures: tuple[float, ...] = (1.0,)
    method: Annotated[str, typer.Option("--method", help=f"One of {', '.join(METHODS)}.")] = "auto"
    rtol: float = 1e-3
    seed: int = 0


@app.command("gaussian")
@spread
def gaussian_command(
    classes: GaussianClasses,
    config: Annotated[
        GaussianConfig, Flags(without=("means", "cov", "covs", "priors"), names={"temperatures": "--temperature"})
    ],
    out: OutFolder = None,
    json: JsonFlag = False,
) -> None:
    """The Bayes error of Gaussian classes, at one temperature or several.

    Example: [bold]hardpan bayes gaussian means.npy --cov cov.npy --temperature 0.2,1,1.4,3 --out curve[/bold]
    """
    check_out(out)
    config = replace(config, **asdict(classes))
    arrays: dict[str, Any] = classes.read()

    def errors(temperatures: Sequence[float], rtol: float) -> Curve:
        return gaussian_curve(
            **arrays, temperatures=temperatures, method=config.method, rtol=rtol, seed=config.seed
        )

    with progress_on_stderr() as progress:
        progress("integrating", 0.0)
        curve = errors(config.temperatures, config.rtol)
        if out is not None:
            progress("integrating between the temperatures", 0.5)
            line = errors(_between(curve.temperatures), max(config.rtol, LINE_RTOL))
            curve = replace(curve, line=line, hashes={"means, sha256": files.array_hash(arrays["means"])})
    settings = {"config.json": files.dumps(files.to_json(config)) + "\n"}
    if json and out is None and len(curve.estimates) == 1:
        print(files.dumps(files.to_json(curve.estimates[0])))
    else:
        emit_report(curve, json=json, out=out, extra=settings)


@app.command("temperature")
@printing
def temperature_command(
    classes: GaussianClasses,
    error: Annotated[float, typer.Option("--bayes-error", help="Target Bayes error, between 0 and 1.")],
    seed: Seed = 0,
) -> Report:
    """The temperature at which Gaussian classes have a target Bayes error (with --covs: every such temperature).

    Example: [bold]hardpan bayes temperature means.npy --bayes-error 0.1[/bold]
    """
    arrays: dict[str, Any] = classes.read()
    with progress_on_stderr() as progress:
        progress("searching", 0.0)
        if arrays["covs"] is not None:
            del arrays["cov"]
            return Temperatures(error, temperatures_for(**arrays, error=error, seed=seed))
        del arrays["covs"]
        return Temperatures(error, (temperature_for(**arrays, error=error, seed=seed),))


@app.command("detail")
@printing
def detail_command(
    classes: Annotated[GaussianClasses, Flags(without=("covs",))],
    options: Annotated[dict[str, Any], Flags(of=gaussian_detail, without=("cov", "priors", "max_draws"))],
) -> Report:
    """Errors by class, confusion matrix, top-k errors and slope of the Bayes classifier of Gaussian classes.

    Example: [bold]hardpan bayes detail means.npy --cov cov.npy[/bold]
    """
    arrays: dict[str, Any] = classes.read()
    del arrays["covs"]
    with progress_on_stderr() as progress:
        progress("integrating", 0.0)
        return gaussian_detail(**arrays, **options)


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
            f"must be numbers separated by commas or a .npy file; got {text!r}", argument=option
        ) from None
    return np.array(values[0] if len(values) == 1 and option == "--cov" else values)


def _between(temperatures: Sequence[float]) -> list[float]:
    """Temperatures dense enough for a smooth line through the requested ones; a decade around a single one."""
    low, high = min(temperatures), max(temperatures)
    if low == high:
        low, high = low / 3, high * 3
    return [float(t) for t in np.unique(np.append(np.geomspace(low, high, LINE_POINTS), temperatures))]
