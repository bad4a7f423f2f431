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
from hardpan.cli.decorators import Output, spread
from hardpan.cli.options import Flags
from hardpan.errors import InputError
from hardpan.files import read_npy, record

LINE_POINTS = 41
LINE_RTOL = 0.01  # accurate enough for a line on a page

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def bayes() -> None:
    """Exact Bayes errors of Gaussian classes."""


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
    if config.cov is not None and config.covs is not None:
        raise InputError("must not both be given; use covs for one covariance per class", argument=("cov", "covs"))
    if Path(means).suffix != ".npy" and not Path(means).exists():
        raise InputError(f"must be a .npy file; got {means!r}", argument="means")
    texts = {"means": means, "cov": config.cov, "covs": config.covs, "priors": config.priors}
    arrays: dict[str, Any] = {
        name: _numbers_or_file(name, text) for name, text in texts.items() if text is not None
    }
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
            low, high = min(temperatures), max(temperatures)
            if low == high:  # a decade around a single one
                low, high = low / 3, high * 3
            between = np.unique(np.append(np.geomspace(low, high, LINE_POINTS), temperatures))
            line = errors(between.tolist(), max(config.rtol, LINE_RTOL))
            curve = replace(curve, line=line, hashes={"means, sha256": files.array_hash(arrays["means"])})
    settings = {"config.json": files.json_text(config) + "\n"}
    only_error = len(curve.estimates) == 1 and curve.target is None and curve.detail is None
    if output.json and output.out is None and only_error:
        print(files.json_text(curve.estimates[0]))
    else:
        emit_report(curve, json=output.json, out=output.out, extra=settings)


def _numbers_or_file(option: str, text: str) -> NDArray[Any]:
    """A .npy file, mapped into memory, or numbers with commas between them (one covariance: a scalar)."""
    if Path(text).suffix == ".npy" or Path(text).exists():
        try:
            return read_npy(Path(text), mmap=True)
        except InputError as error:
            raise InputError(str(error), argument=option) from error
    try:
        values = [float(piece) for piece in text.split(",")]
    except ValueError:
        raise InputError(
            f"must be numbers separated by commas or a .npy file; got {text!r}", argument=option
        ) from None
    return np.array(values[0] if len(values) == 1 and option == "cov" else values)
