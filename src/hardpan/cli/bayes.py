"""``hardpan bayes``: exact Bayes errors of Gaussian classes from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hardpan import files
from hardpan.bayes import gaussian_curve, gaussian_detail, temperature_for
from hardpan.bayes.gaussians.temperature import TemperatureCurve
from hardpan.cli.common import emit_report, progress_on_stderr
from hardpan.cli.options import Flags, Output, removed, spread
from hardpan.errors import InputError
from hardpan.files import read_npy, record

LINE_POINTS = 41
LINE_RTOL = 0.01  # a line on a page needs no more

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Exact Bayes errors of Gaussian classes.")
removed(app, "temperature", "hardpan bayes gaussian --error")
removed(app, "detail", "hardpan bayes gaussian --detail")


@record
class GaussianConfig:
    """The classes and settings of ``hardpan bayes gaussian``, saved beside every page.

    Attributes:
        cov: one covariance for all classes: a number, or a .npy file of shape (d,) or (d, d); default: identity.
        covs: one covariance per class: a .npy file of shape (K,), (K, d) or (K, d, d).
        priors: class priors: numbers separated by commas, or a .npy file of shape (K,); default: equal.
        temperatures: one temperature, or several separated by commas for a curve.
        error: find the temperature that has this Bayes error.
        detail: also compute errors by class, confusions, top-k errors and the slope in the temperature.
        method: "auto", "exact", "importance", "hdr", "contour" or "chernoff".
        rtol: relative standard error to reach.
    """

    means: str = ""
    cov: str | None = None
    covs: str | None = None
    priors: str | None = None
    temperatures: tuple[float, ...] = (1.0,)
    error: float | None = None
    detail: bool = False
    method: str = "auto"
    rtol: float = 1e-3
    seed: int = 0

    def arrays(self) -> dict[str, Any]:
        """Means, covariances and priors, as the functions of :mod:`hardpan.bayes` call them."""
        if self.cov is not None and self.covs is not None:
            raise InputError(
                "must not both be given; use covs for one covariance per class", argument=("cov", "covs")
            )
        texts = {"cov": self.cov, "covs": self.covs, "priors": self.priors}
        arrays = {name: _numbers_or_file(f"--{name}", text) for name, text in texts.items() if text is not None}
        return {"means": _npy_array("MEANS", self.means), **arrays}


@app.command("gaussian")
@spread
def gaussian_command(
    means: Annotated[str, typer.Argument(metavar="MEANS", help="Class means, a .npy file of shape (K, d).")],
    config: Annotated[
        GaussianConfig,
        Flags(
            only=("cov", "covs", "priors", "temperatures", "error", "detail", "seed"),
            without=("means",),
            names={"temperatures": "--temperature"},
        ),
    ],
    output: Output,
) -> None:
    """The Bayes error of Gaussian classes, at one temperature or several; or the temperature of a Bayes error.

    Example: [bold]hardpan bayes gaussian means.npy --cov cov.npy --temperature 0.2,1,1.4,3 --out curve[/bold]
    """
    config = replace(config, means=means)
    arrays = config.arrays()
    if config.error is not None and config.temperatures != (1.0,):
        raise InputError("must not both be given", argument=("error", "temperatures"))
    if config.detail and (config.covs is not None or len(config.temperatures) > 1):
        raise InputError("needs one temperature, and one covariance for all classes", argument="detail")

    def errors(temperatures: Sequence[float], rtol: float) -> TemperatureCurve:
        return gaussian_curve(
            **arrays, temperatures=temperatures, method=config.method, rtol=rtol, seed=config.seed
        )

    with progress_on_stderr() as progress:
        temperatures = config.temperatures
        if config.error is not None:
            progress("searching the temperature", 0.0)
            temperatures = (temperature_for(**arrays, error=config.error, seed=config.seed),)
        progress("integrating", 0.3)
        curve = replace(errors(temperatures, config.rtol), target=config.error)
        if config.detail:
            options: dict[str, Any] = {"temperature": temperatures[0], "rtol": config.rtol, "seed": config.seed}
            curve = replace(curve, detail=gaussian_detail(**arrays, **options))
        if output.out is not None:
            progress("integrating between the temperatures", 0.6)
            line = errors(_between(curve.temperatures), max(config.rtol, LINE_RTOL))
            curve = replace(curve, line=line, hashes={"means, sha256": files.array_hash(arrays["means"])})
    settings = {"config.json": files.dumps(files.to_json(config)) + "\n"}
    only_error = len(curve.estimates) == 1 and curve.target is None and curve.detail is None
    if output.json and output.out is None and only_error:
        print(files.dumps(files.to_json(curve.estimates[0])))
    else:
        emit_report(curve, json=output.json, out=output.out, extra=settings)


def _npy_array(name: str, path: str) -> NDArray[Any]:
    """A .npy file, mapped into memory and never unpickled."""
    try:
        return read_npy(Path(path), mmap=True)
    except InputError as error:
        raise InputError(f"{name} {error}") from error


def _numbers_or_file(option: str, text: str) -> NDArray[Any]:
    """Numbers with commas between them (one number: a scalar), or a .npy file."""
    if Path(text).suffix == ".npy" or Path(text).exists():
        return _npy_array(option, text)
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
