"""What the results of :mod:`hardpan.predictions` say and show."""

from __future__ import annotations

from hardpan.formatting import counted
from hardpan.predictions.results import ImportSummary, StoreInfo, Verification
from hardpan.report.base import View
from hardpan.report.generic import view
from hardpan.report.sections import Section, Table, columns_of
from hardpan.safe_files import few


@view.register
def _(result: ImportSummary) -> View:
    who = f"models {few(result.models)}" if result.models else _listed(result.seeds, "seed")
    headline = (
        f"{result.target}: {counted(result.examples, 'example')} × {result.classes} classes, {who}, "
        f"{_listed(result.epochs, 'epoch')}"
    )
    lines = []
    if result.detected:
        lines.append(f"The file contains {result.outputs} (detected; use --outputs if that is wrong).")
    if (missing := result.missing) is not None:
        lines.append(
            f"Left out: seed {missing.seed} epoch {missing.epoch} is missing for the "
            f"{counted(missing.examples, 'example')} of {missing.source} ({missing.count} such pairs)."
        )
    lines += [f"Left out: {column}, because {source} has none." for column, source in result.unknown.items()]
    if result.left_out:
        epochs, seeds = _listed(result.left_out, "epoch"), _listed(result.seeds, "seed")
        lines.append(f"Left out: {epochs} that not all of {seeds} have; --seeds selects those that have them.")
    return View(title="Predictions", headline=headline, lede=tuple(lines), columns={"seed": result.seeds})


@view.register
def _(result: Verification) -> View:
    verdict = "verified" if result.ok else "NOT verified"
    size = f"{counted(result.shards, 'shard')}, {_size(result.bytes)}, {counted(len(result.problems), 'problem')}"
    lines = []
    if result.leftovers:
        lines.append(f"{counted(len(result.leftovers), 'file')} of interrupted writers; they are harmless.")
    if result.problems and result.dropped:
        lines.append("Damaged shards were uncommitted; run the training or import again to record them.")
    columns = columns_of(result.problems, "what", "file", "message")
    rows = tuple(zip(*columns.values(), strict=True))
    sections = (Section("Problems", tables=(Table("", tuple(columns), rows),)),) if rows else ()
    return View("Verification", f"{result.store}: {verdict}, {size}", sections, tuple(lines), columns=columns)


@view.register
def _(result: StoreInfo) -> View:
    names = f" ({few(result.class_names)})" if result.class_names else ""
    common = " of every seed" if result.epochs_of else ""
    size = f"{_size(result.bytes_of_numbers)} of {result.dtype}"
    if result.bytes_stored is not None:
        size += f", {_size(result.bytes_stored)} on disk, {result.block:,} rows per shard"
    rows = [
        ("examples", f"{result.examples:,}" + ("" if result.labelled else ", without labels")),
        ("split", ", ".join(f"{name} {count:,}" for name, count in result.split.items())),
        ("classes", f"{result.classes}{names}"),
        ("models", ", ".join(result.models)),
        ("seeds", _listed(result.seeds, "seed")),
        ("epochs", _listed(result.epochs, "epoch") + common),
        *((f"epochs of seed {seed}", _listed(epochs, "epoch")) for seed, epochs in result.epochs_of.items()),
        ("held out", "yes" if result.held_out else ""),
        ("size", size),
        *((f"config {name}", str(value)) for name, value in result.config.items()),
        ("written by", ", ".join(f"{name} {version}" for name, version in result.versions.items())),
        *(("incomplete", item) for item in result.partial[:20]),
    ]
    table = Table("", ("", "contents"), tuple(row for row in rows if row[1]))
    headline = f"{result.store}: {counted(result.examples, 'example')} × {result.classes} classes"
    return View("Predictions", headline, (Section("Contents", tables=(table,)),), columns={"seed": result.seeds})


def _size(count: int) -> str:
    """Such as "16.8 MB".

    Example:
        >>> _size(999), _size(16_777_216), _size(768_000_000_000)
        ('999 bytes', '16.8 MB', '768.0 GB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"


def _listed(numbers: tuple[int, ...], what: str) -> str:
    """Such as "3 seeds (0–2)".

    Example:
        >>> _listed((0, 1, 2), "seed"), _listed((4,), "epoch"), _listed((1, 5), "epoch"), _listed((), "seed")
        ('3 seeds (0–2)', '1 epoch (4)', '2 epochs (1, 5)', '0 seeds')
    """
    text = counted(len(numbers), what)
    if not numbers:
        return text
    if len(numbers) > 2 and numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"{text} ({numbers[0]}–{numbers[-1]})"
    return f"{text} ({few(numbers)})"
