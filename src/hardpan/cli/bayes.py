"""``hardpan bayes``: exact Bayes errors of Gaussian classes from the command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from hardpan import files, numbers
from hardpan.bayes import (
    METHODS,
    Curve,
    GaussianDetail,
    gaussian_curve,
    gaussian_detail,
    temperature_for,
    temperatures_for,
)
from hardpan.cli.common import JsonFlag, OutFolder, Seed, emit, floats, progress_on_stderr
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report.sections import Provenance, Section
from hardpan.safe_files import read_npy

DRAWN_POINTS = 41
DRAWN_RTOL = 0.01  # a line on a page needs no more

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Exact Bayes errors of Gaussian classes.")

Means = Annotated[Path, typer.Argument(metavar="MEANS", help="Class means, a .npy file of shape (K, d).")]
Cov = Annotated[
    str | None,
    typer.Option("--cov", help="One covariance for all: a number, or a .npy file of shape (d,) or (d, d)."),
]
Covs = Annotated[
    str | None,
    typer.Option("--covs", help="One covariance a class: a .npy file of shape (K,), (K, d) or (K, d, d)."),
]
Priors = Annotated[
    str | None, typer.Option("--priors", help="Class priors: numbers with commas, or a .npy file of shape (K,).")
]
Rtol = Annotated[
    float, typer.Option("--rtol", help="Draw until the standard error is below this share of the value.")
]


@record
@dataclass(frozen=True, slots=True)
class GaussianConfig:
    """What ``hardpan bayes gaussian`` was asked, saved with every page."""

    means: str
    cov: str | None
    covs: str | None
    priors: str | None
    temperatures: tuple[float, ...]
    method: str
    rtol: float
    seed: int


@record
@dataclass(frozen=True, slots=True)
class Temperatures:
    """The temperatures at which classes have a wanted Bayes error."""

    error: float
    temperatures: tuple[float, ...]


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
        curve, page = errors(config.temperatures, rtol), None
        if out is not None:
            progress("drawing the dial", 0.5)
            page = _write_page(
                out, curve, errors(_between(curve.temperatures), max(rtol, DRAWN_RTOL)), config, rows
            )
    single = len(curve.estimates) == 1
    emit(curve.estimates[0] if single else curve, json, _curve_table(curve, page))


@app.command("temperature")
def temperature_command(
    means: Means,
    error: Annotated[
        float, typer.Option("--bayes-error", help="The wanted Bayes error, a fraction between 0 and 1.")
    ],
    cov: Cov = None,
    covs: Covs = None,
    priors: Priors = None,
    seed: Seed = 0,
    json: JsonFlag = False,
) -> None:
    """The temperature at which Gaussian classes have a wanted Bayes error (with --covs: every such temperature).

    Example: [bold]hardpan bayes temperature means.npy --bayes-error 0.1[/bold]
    """
    rows, shared, each = _load("MEANS", means), _array("--cov", cov), _array("--covs", covs)
    weights = _array("--priors", priors)
    if shared is not None and each is not None:
        raise InputError("--cov and --covs exclude each other; got both: give --covs for one a class")
    with progress_on_stderr() as progress:
        progress("searching", 0.0)
        if each is not None:
            found = temperatures_for(rows, each, weights, error=error, seed=seed)
        else:
            found = (temperature_for(rows, shared, weights, error=error, seed=seed),)
    shown = ", ".join(f"{value:.6g}" for value in found)
    emit(Temperatures(error, found), json, f"Bayes error {numbers.percent(error)} at temperature {shown}")


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
        found = gaussian_detail(rows, shared, weights, temperature=temperature, rtol=rtol, seed=seed)
    emit(found, json, _detail_table(found))


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


def _curve_table(curve: Curve, page: Path | None) -> Table:
    table = Table(box=None, pad_edge=False, title_justify="left")
    for name in ("temperature", "Bayes error", "log10", "method", "draws"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for t, e in zip(curve.temperatures, curve.estimates, strict=True):
        table.add_row(f"{t:g}", numbers.unbroken(numbers.estimate(e)), _log10(e), e.method, f"{e.n:,}")
    notes = dict.fromkeys(note for e in curve.estimates for note in e.notes)
    table.caption = "\n".join([*notes, *([f"Page: {page}"] if page else [])]) or None
    table.caption_justify = "left"
    return table


def _log10(estimate: Estimate) -> str:
    return "" if estimate.log10 is None else f"{estimate.log10:.6g}"


def _detail_table(found: GaussianDetail) -> Table:
    table = Table(box=None, pad_edge=False, title_justify="left")
    table.title = f"Bayes error {numbers.estimate(found.error)}; slope dE/dτ {found.slope.value:.4g}"
    for name in ("class", "error", "most often taken for", "top-k", "error of the best k"):
        table.add_column(name, justify="right")
    for k, (error, spread) in enumerate(zip(found.class_error, found.class_error_stderr, strict=True)):
        others = np.where(np.arange(len(found.class_error)) == k, -1.0, np.nan_to_num(found.confusion[k], nan=-1.0))
        taken = int(np.argmax(others))
        share = numbers.percent(others[taken], 2 * found.confusion_stderr[k, taken]) if others[taken] > 0 else "–"
        top = numbers.percent(found.top_k[k], 2 * found.top_k_stderr[k])
        table.add_row(str(k), numbers.percent(error, 2 * spread), f"{taken} ({share})", str(k + 1), top)
    return table


def _between(temperatures: Sequence[float]) -> list[float]:
    """Temperatures dense enough for a smooth line through the ones asked for; a decade around a single one."""
    low, high = min(temperatures), max(temperatures)
    if low == high:
        low, high = low / 3, high * 3
    return [float(t) for t in np.unique(np.append(np.geomspace(low, high, DRAWN_POINTS), temperatures))]


def _write_page(out: Path, curve: Curve, drawn: Curve, config: GaussianConfig, means: NDArray[Any]) -> Path:
    from hardpan import report
    from hardpan.report.figures import dial
    from hardpan.report.files import write_together

    n_classes, d = means.shape
    section = Section(
        "Bayes error against temperature",
        (f"{n_classes} Gaussian classes in {d:,} dimensions; the temperature multiplies every covariance by τ².",),
        {f"τ = {t:g}": e for t, e in zip(curve.temperatures, curve.estimates, strict=True)},
        (dial(drawn.temperatures, drawn.estimates, "The dial: Bayes error against temperature", "as given"),),
    )
    provenance = Provenance(
        method=(f"Method: {curve.method}. E = ∫ (Σ_k π_k p_k − max_k π_k p_k), the error of the best classifier.",),
        citations=(
            "Theisen et al. 2021, Evaluating State-of-the-Art Classification Models Against Bayes Optimality",
        ),
        command=shlex.join(["hardpan", *sys.argv[1:]]),
        seed=config.seed,
        versions=files.versions_of("numpy", "scipy"),
        hashes={"means, sha256": files.array_hash(means)},
    )
    first = numbers.estimate(curve.estimates[0])
    html = report.page(
        [section],
        title="Bayes error of Gaussian classes",
        headline=f"At temperature {curve.temperatures[0]:g} no classifier errs less than {first}.",
        provenance=provenance,
    )
    write_together(
        out,
        {
            "index.html": html,
            "config.json": files.dumps(files.to_json(config)) + "\n",
            "report.json": files.dumps(files.to_json(curve)) + "\n",
        },
    )
    return out / "index.html"
