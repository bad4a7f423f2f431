"""Whatever holds scores, as :class:`hardpan.Outcomes`: files are recognised by what is in them."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardpan.arguments import one_of
from hardpan.errors import InputError
from hardpan.formatting import counted
from hardpan.outcomes import counts, every_eval_ever, helm, inspect_logs, lm_eval, matrices, tables
from hardpan.outcomes.cells import Cells, Harness, LogFile, Options, Progress
from hardpan.outcomes.outcomes import Outcomes
from hardpan.safe_files import DAMAGED, LONGEST_LINE, few, is_gzip, parse_json, read_arrays, read_json, reason
from hardpan.tables import is_frame, named_column, stem_of, suffix_of

MOST_FILES = 200_000
MOST_KEPT = 32 << 20
HARNESSES = (lm_eval.HARNESS, every_eval_ever.HARNESS, inspect_logs.HARNESS, helm.HARNESS)
SUFFIXES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".pq", ".npy", ".npz", ".eval")
PathLike = str | os.PathLike[str]


def read_outcomes(
    source: Any,
    options: Options,
    *,
    unparsed: str = "wrong",
    max_score: float | None = None,
    totals: counts.Totals = None,
    progress: Progress | None = None,
) -> Outcomes:
    """Read :meth:`hardpan.Outcomes.open`'s source."""
    if isinstance(source, Outcomes):
        return source
    cells = Cells(unparsed, max_score)
    one_of("rows", options.rows, (*tables.ROWS, None))
    if isinstance(source, np.ndarray) or _is_matrix(source):
        matrix = _models_first(np.asarray(source), options)
        if max_score is None:
            return Outcomes.from_arrays(matrix)
        sets = matrices.sets_of_arrays({"": matrix}, "scores", "")
        return matrices.outcomes_of_sets(sets, options, "", max_score)
    if isinstance(source, (str, os.PathLike)) or _are_paths(source):
        paths = [source] if isinstance(source, (str, os.PathLike)) else list(source)
        return _read_paths([Path(path) for path in paths], cells, options, totals, progress)
    if not _is_table(source):
        raise InputError(
            "must be a path, a list of paths, an array, or a table (frame, rows, columns); "
            f"got {type(source).__name__}",
            argument="source",
        )
    return _read_tables([("table", tables.score_columns(source, "source"))], cells, options, totals, "table")


def _is_matrix(source: Any) -> bool:
    """Whether a list has rows of numbers, all of one length."""
    rows = isinstance(source, (list, tuple)) and bool(source) and all(isinstance(r, (list, tuple)) for r in source)
    return (
        rows
        and len({len(row) for row in source}) == 1
        and all(isinstance(value, (int, float)) for row in source for value in row)
    )


def _models_first(matrix: np.ndarray[Any, Any], options: Options) -> np.ndarray[Any, Any]:
    return matrix.T if options.rows == "items" and matrix.ndim == 2 else matrix


def _are_paths(source: Any) -> bool:
    return (
        isinstance(source, (list, tuple))
        and bool(source)
        and all(isinstance(p, (str, os.PathLike)) for p in source)
    )


def _is_table(source: Any) -> bool:
    rows = isinstance(source, (list, tuple)) and bool(source) and all(isinstance(row, Mapping) for row in source)
    return rows or isinstance(source, Mapping) or is_frame(source)


@dataclass(slots=True)
class _Files:
    """Files by format."""

    logs: dict[Harness, list[LogFile]] = field(default_factory=dict)
    tables: list[tuple[Path, Any]] = field(default_factory=list)
    arrays: list[Path] = field(default_factory=list)
    aggregates: list[Path] = field(default_factory=list)
    empty: list[Path] = field(default_factory=list)
    bytes_kept: int = 0

    def add_log(self, harness: Harness, log: LogFile) -> None:
        """Note a log of a harness."""
        self.logs.setdefault(harness, []).append(log)

    def keep(self, path: Path, data: Any) -> Any:
        """A parsed file, or None if the files that are kept would need too much memory: it is read again then."""
        self.bytes_kept += path.stat().st_size
        return data if self.bytes_kept <= MOST_KEPT else None


def _read_paths(
    paths: Sequence[Path], cells: Cells, options: Options, totals: counts.Totals, progress: Progress | None
) -> Outcomes:
    files: list[tuple[Path, bool]] = []
    for path in paths:
        if _too_long(path) or not path.exists():
            raise InputError(f"{_short_path(path)}: no such file or folder")
        files += [(file, False) for file in _walk(path)] if path.is_dir() else [(path, True)]
    sizes = sum(file.stat().st_size for file, _ in files if file.is_file()) or 1
    done = 0

    def advance(size: int) -> None:
        nonlocal done
        before, done = done, done + size
        if progress is not None and (done * 200 // sizes) != (before * 200 // sizes):
            progress("reading scores", min(done / sizes, 1.0))

    source = ", ".join(str(path) for path in paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    formats = _Files()
    for file, named in files:
        _recognise(file, named, formats, advance)
    if formats.logs:
        if set(options.columns) - {"group"}:
            raise InputError("are those of a table; logs have no columns: leave it out", argument="columns")
        for harness, logs in formats.logs.items():
            harness.read_logs(logs, cells, options)
        _note_sources(formats, cells)
        return _group_first(cells.outcomes(source), options.group)
    if not formats.tables and not formats.arrays:
        if formats.aggregates:
            raise InputError(
                f"{formats.aggregates[0]}: aggregate results without items; give the samples (lm-eval: "
                "--log_samples)"
            )
        if formats.empty:
            raise InputError(f"{formats.empty[0]}: the file is empty; write it again")
        raise InputError(f"{source}: no file with scores; supported: {', '.join(SUFFIXES)}, and HELM run folders")
    # What was parsed to recognise it comes first.
    named_tables = [
        (str(path), data if matrices.is_nested(data) else tables.score_columns(data, str(path)))
        for path, data in formats.tables
        if data is not None
    ]
    named_tables += [
        (str(path), tables.score_columns(path, str(path))) for path, data in formats.tables if data is None
    ]
    for path in formats.arrays:
        arrays = read_arrays(path)
        if list(arrays) == [""]:
            arrays = {"": _models_first(arrays[""], options)}
        sets = matrices.sets_of_arrays(arrays, str(path), stem_of(path))
        if len(formats.arrays) == 1 and not named_tables:
            return _group_first(matrices.outcomes_of_sets(sets, options, source, cells.max_score), options.group)
        matrices.add_sets(sets, cells, options, str(path))
    return _read_tables(named_tables, cells, options, totals, source)


def _read_tables(
    named: Sequence[tuple[str, Any]], cells: Cells, options: Options, totals: counts.Totals, source: str
) -> Outcomes:
    counted = [
        not matrices.is_nested(columns) and counts.is_counts(columns) and not matrices.has_labels(columns)
        for _, columns in named
    ]
    if named and all(counted) and not len(cells):
        return counts.read_counts(
            [(stem_of(Path(where)), columns) for where, columns in named], options.metric, totals, source
        )
    for (where, columns), is_counts in zip(named, counted, strict=True):
        if is_counts:
            raise InputError(f"{where}: counts cannot be joined with scores per item; read the files one by one")
        stem = stem_of(Path(where))
        if matrices.is_nested(columns):
            matrices.add_sets(matrices.sets_of_json(columns, where, stem), cells, options, where)
        elif matrices.has_predictions(columns):
            matrices.add_sets(matrices.sets_of_columns(columns, where, stem, options), cells, options, where)
        else:
            tables.read_scores(columns, where, stem, cells, options)
    return _group_first(cells.outcomes(source), options.group)


def _group_first(outcomes: Outcomes, group: str | None) -> Outcomes:
    """The group column that was asked for comes first: it is the one to cluster by."""
    if group is None:
        return outcomes
    name = named_column(list(outcomes.groups), group, "group", "what was read")
    return replace(outcomes, groups={name: outcomes.groups[name]} | dict(outcomes.groups))


def _note_sources(formats: _Files, cells: Cells) -> None:
    read = ", ".join(f"{harness.name} ({len(logs):,})" for harness, logs in formats.logs.items())
    cells.notes.insert(0, f"Read: {read}.")
    if skipped := len(formats.tables) + len(formats.arrays):
        cells.notes.append(f"Not read beside the logs: {counted(skipped, 'table or array', 'tables or arrays')}.")
    if formats.empty:
        cells.notes.append(f"Empty files: {few(['/'.join(path.parts[-2:]) for path in formats.empty], 3)}.")


def _too_long(path: Path) -> bool:
    return len(str(path)) > 4_000 or any(len(name.encode("utf-8", "surrogatepass")) > 255 for name in path.parts)


def _short_path(path: Path) -> str:
    text = str(path)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _walk(folder: Path) -> Iterator[Path]:
    """The files of a folder, and HELM runs as folders, in order; links to folders are not followed.

    Hidden folders are skipped, but not those that lm-evaluation-harness makes: "./model" becomes ".__model".
    """
    count = 0
    for where, folders, names in os.walk(folder):
        root = Path(where)
        folders[:] = sorted(name for name in folders if not name.startswith(".") or "__" in name)
        if any(harness.is_folder(root) for harness in HARNESSES):
            folders[:] = []
            yield root
            continue
        for name in sorted(names):
            if suffix_of(Path(name)) in SUFFIXES and not name.startswith("."):
                count += 1
                if count > MOST_FILES:
                    raise InputError(f"{folder}: more than {MOST_FILES:,} files; give a smaller folder")
                yield root / name


def _recognise(path: Path, named: bool, formats: _Files, advance: Callable[[int], None]) -> None:
    """Sort a file by what it holds; in a folder, other files are passed over."""
    if path.is_dir():
        formats.add_log(next(harness for harness in HARNESSES if harness.is_folder(path)), LogFile(path, advance))
        return
    try:
        packed = is_gzip(path)
        with gzip.open(path) if packed else path.open("rb", buffering=1 << 16) as stream:
            start = stream.read(6)
            if start[:4] == b"PK\x03\x04":
                kind = "archive"
            elif start == b"\x93NUMPY":
                kind = "array"
            elif start[:4] == b"PAR1":
                kind = "table"
            else:
                kind = "text"
                text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
                if not text and start:
                    text = stream.read(1 << 16).lstrip()
                if text[:1] in (b"{", b"["):
                    kind = "json"
                    stream.seek(0)
                    first = stream.readline(LONGEST_LINE + 1)
                    more = bool(stream.read(1))
    except DAMAGED as error:
        raise InputError(f"{path}: cannot be read ({reason(error)}); write it again") from error
    if packed and kind in ("archive", "array", "table"):
        if named:
            raise InputError(f"{path}: only text is read from gzip; unpack it, and give the file")
        return
    if kind == "archive":
        _recognise_archive(path, named, formats, advance)
    elif kind == "array":
        formats.arrays.append(path)
    elif kind == "json":
        _recognise_json(path, first, more, named, formats, advance)
    elif not start:
        if named:
            raise InputError(f"{path}: the file is empty")
        formats.empty.append(path)
    elif kind == "table" or suffix_of(path) in (".csv", ".tsv", ".txt") or named:
        if kind == "text" and suffix_of(path) not in (".csv", ".tsv", ".txt"):
            raise InputError(f"{path}: unsupported format; supported: {', '.join(SUFFIXES)}, and HELM run folders")
        formats.tables.append((path, None))


def _recognise_archive(path: Path, named: bool, formats: _Files, advance: Callable[[int], None]) -> None:
    try:
        with zipfile.ZipFile(path) as stored:
            names = stored.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise InputError(f"{path}: cannot be read as a zip archive ({error})") from error
    if harness := next((harness for harness in HARNESSES if harness.is_archive(names)), None):
        formats.add_log(harness, LogFile(path, advance))
    elif any(name.endswith(".npy") for name in names):
        formats.arrays.append(path)
    elif named:
        raise InputError(
            f"{path}: a zip archive of {few(names)}; expected an Inspect log (.eval) or an npz file; save a "
            "spreadsheet as CSV"
        )


def _recognise_json(
    path: Path, first: bytes, more: bool, named: bool, formats: _Files, advance: Callable[[int], None]
) -> None:
    whole = None
    try:
        row = parse_json(first.removeprefix(b"\xef\xbb\xbf"), f"{path}, line 1")
        lines = isinstance(row, Mapping) and more
    except InputError:
        if suffix_of(path) in (".jsonl", ".ndjson") and first.lstrip()[:1] == b"{" and first.rstrip()[-1:] == b"}":
            raise
        row, lines = None, False
    if not lines:
        whole = read_json(path)
        row = whole[0] if isinstance(whole, list) and whole else whole
    for harness in HARNESSES:
        if harness.is_log(row):
            formats.add_log(harness, LogFile(path, advance, not lines, formats.keep(path, whole)))
            return
        if harness.is_aggregate(row):
            formats.aggregates.append(path)
            return
        if named and harness.is_folder(path.parent):
            formats.add_log(harness, LogFile(path.parent, advance))
            return
    rows = isinstance(row, Mapping) and (whole is None or isinstance(whole, list) or _like_columns(whole))
    if rows:
        formats.tables.append((path, whole))
    elif named:
        known = ", ".join(harness.name for harness in HARNESSES)
        raise InputError(f"{path}: this JSON holds no scores that are known here; supported: {known}")


def _like_columns(data: Any) -> bool:
    if matrices.is_nested(data):
        return True
    return isinstance(data, Mapping) and all(isinstance(values, (list, Mapping)) for values in data.values())
