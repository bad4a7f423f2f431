"""Whatever holds scores, as :class:`hardpan.Outcomes`: files are recognised by what is in them."""

from __future__ import annotations

import collections
import gzip
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.arguments import one_of
from hardpan.errors import InputError, counted, few, reason
from hardpan.files import (
    DAMAGED,
    LONGEST_LINE,
    is_gzip,
    parse_json,
    read_arrays,
    read_json,
    read_json_lines,
    stem_of,
    suffix_of,
)
from hardpan.outcomes import (
    agent_logs,
    counts,
    helm,
    inspect_logs,
    judge_logs,
    lm_eval,
    matrices,
    suite_logs,
    tables,
)
from hardpan.outcomes.cells import Cells, Options, common_parts
from hardpan.outcomes.json_scores import READABLE, describe_json, json_score_rows
from hardpan.outcomes.logs import Harness, LogFile, parquet_columns
from hardpan.outcomes.outcomes import Outcomes
from hardpan.tables import is_frame, named_column

MOST_KEPT = 32 << 20
_MAGIC = {b"PK\x03\x04": "archive", b"\x93NUM": "array", b"PAR1": "table"}
HARNESSES: tuple[Harness, ...] = (lm_eval.HARNESS, inspect_logs.HARNESS, helm.HARNESS)
HARNESSES += (*agent_logs.HARNESSES, *judge_logs.HARNESSES, *suite_logs.HARNESSES)
SUFFIXES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".pq", ".npy", ".npz", ".eval")
Progress = Callable[[str, float], None]


def read_outcomes(
    source: Any,
    options: Options,
    *,
    totals: counts.Totals = None,
    progress: Progress | None = None,
) -> Outcomes:
    """Read :meth:`hardpan.Outcomes.open`'s source."""
    if isinstance(source, Outcomes):
        return source
    cells = Cells(options)
    one_of("rows", options.rows, (*tables.ROWS, None))
    is_matrix = _are_all(source, (list, tuple)) and len({len(row) for row in source}) == 1
    is_matrix = is_matrix and all(isinstance(value, (int, float)) for row in source for value in row)
    if isinstance(source, np.ndarray) or is_matrix:
        matrix = _models_first(np.asarray(source), options)
        if options.max_score is None and not options.min_score:
            return Outcomes.from_arrays(matrix)
        return replace(
            matrices.matrix_outcomes({"": matrix}, "scores", "", options.max_score, options.min_score), source=""
        )
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    if _are_all(source, (str, os.PathLike)):
        return _read_paths([Path(path) for path in source], cells, totals, progress)
    if not (_are_all(source, Mapping) or isinstance(source, Mapping) or is_frame(source)):
        raise InputError(
            "must be a path, a list of paths, an array, or a table (frame, rows, columns); "
            f"got {type(source).__name__}",
            argument="source",
        )
    return _read_all_tables(
        [("table", "table", tables.score_table_columns(source, "source"))], cells, totals, "table"
    )


def log_formats(source: str | os.PathLike[str]) -> tuple[str, ...]:
    """Names of the harnesses whose logs are at a path; other files are passed over."""
    path, formats = Path(source), _FilesByFormat()
    for file in _files_to_read(path) if path.is_dir() else [path]:
        _recognise_file(file, False, formats, lambda _: None)
    return tuple(harness.name for harness in formats.logs)


def _are_all(values: Any, kinds: Any) -> bool:
    return isinstance(values, (list, tuple)) and bool(values) and all(isinstance(item, kinds) for item in values)


def _models_first(matrix: NDArray[Any], options: Options) -> NDArray[Any]:
    return matrix.T if options.rows == "items" and matrix.ndim == 2 else matrix


@dataclass(slots=True)
class _FilesByFormat:
    """Files by format."""

    logs: dict[Harness, list[LogFile]] = field(default_factory=lambda: collections.defaultdict(list))
    tables: list[tuple[Path, Any]] = field(default_factory=list)
    arrays: list[Path] = field(default_factory=list)
    aggregates: list[Path] = field(default_factory=list)
    empty: list[Path] = field(default_factory=list)
    other_json: list[tuple[Path, list[str] | None]] = field(default_factory=list)  # with the names of their keys
    bytes_kept: int = 0

    def keep(self, path: Path, data: Any) -> Any:
        """A parsed file, or None if the files that are kept would need too much memory: it is read again then."""
        self.bytes_kept += path.stat().st_size
        return data if self.bytes_kept <= MOST_KEPT else None


def _read_paths(paths: Sequence[Path], cells: Cells, totals: counts.Totals, progress: Progress | None) -> Outcomes:
    options = cells.options
    files: list[tuple[Path, bool]] = []
    for path in paths:
        if not os.path.exists(path):  # False also for a name that is too long
            raise InputError(f"{str(path)[:200]}: no such file or folder")
        files += [(file, False) for file in _files_to_read(path)] if path.is_dir() else [(path, True)]
    sizes = sum(file.stat().st_size for file, _ in files if file.is_file()) or 1
    done = 0

    def advance(size: int) -> None:
        nonlocal done
        before, done = done, done + size
        if progress is not None and (done * 200 // sizes) != (before * 200 // sizes):
            progress("reading scores", min(done / sizes, 1.0))

    source = ", ".join(str(path) for path in paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    formats = _FilesByFormat()
    for file, named in files:
        _recognise_file(file, named, formats, advance)
    if formats.logs:
        if set(options.columns) - {"group"}:
            raise InputError("are those of a table; logs have no columns: leave it out", argument="columns")
        for harness, logs in formats.logs.items():
            harness.read_logs(logs, cells)
        read = ", ".join(f"{harness.name} ({len(logs):,})" for harness, logs in formats.logs.items())
        cells.notes.insert(0, f"Read: {read}.")
        if skipped := len(formats.tables) + len(formats.arrays):
            cells.notes.append(
                f"Not read beside the logs: {counted(skipped, 'table or array', 'tables or arrays')}."
            )
        if formats.other_json:
            cells.notes.append(f"Not read: {describe_json([keys for _, keys in formats.other_json])}.")
        if formats.empty:
            cells.notes.append(f"Empty files: {few(['/'.join(path.parts[-2:]) for path in formats.empty], 3)}.")
        read_files = tuple(
            (str(log.path), harness.name, *cells.files.get(log.path, ("", "")))
            for harness, logs in formats.logs.items()
            for log in logs
        )
        return replace(_read_group_first(cells.outcomes(source), cells.options.group), files=read_files)
    if not formats.tables and not formats.arrays:
        if formats.aggregates:
            raise InputError(
                f"{formats.aggregates[0]}: aggregate results without items; give the samples (lm-eval: "
                "--log_samples)"
            )
        if formats.other_json:
            seen = describe_json([keys for _, keys in formats.other_json])
            raise InputError(f"{source}: no scores of a known form in {seen}. {READABLE}")
        if formats.empty:
            raise InputError(f"{formats.empty[0]}: the file is empty; write it again")
        raise InputError(f"{source}: no file with scores; supported: {', '.join(SUFFIXES)}, and HELM run folders")
    for path in formats.arrays:
        arrays = read_arrays(path)
        if list(arrays) == [""]:
            arrays = {"": _models_first(arrays[""], options)}
        outcomes = matrices.matrix_outcomes(arrays, str(path), stem_of(path), options.max_score, options.min_score)
        if len(formats.arrays) == 1 and not formats.tables:
            return _read_group_first(replace(outcomes, source=source), options.group)
        by_id = not options.by_order and not matrices.matrices_by_set(arrays, matrices.IDS)
        cells.add_outcomes(outcomes, str(path), by_id=by_id)
    if formats.other_json:
        cells.notes.append(f"Not read: {describe_json([keys for _, keys in formats.other_json])}.")
    # What was parsed to recognise it comes first.
    parsed_first = sorted(formats.tables, key=lambda table: table[1] is None)
    names = _names_of_paths([path for path, _ in parsed_first])
    columns = [
        (str(path), name, tables.score_table_columns(_table_source(path) if data is None else data, str(path)))
        for name, (path, data) in zip(names, parsed_first, strict=True)
    ]
    return _read_all_tables(columns, cells, totals, source)


def _table_source(path: Path) -> Any:
    """The table of a file that was not kept: rows of JSON, or the path of another format."""
    if suffix_of(path) != ".json":
        return path
    try:
        return json_score_rows(read_json(path))
    except InputError:
        return list(read_json_lines(path))


def _names_of_paths(paths: Sequence[Path]) -> list[str]:
    """What distinguishes files: their names, or where several have one name, the folders that differ."""
    stems = [stem_of(path) for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    parts = [(*path.resolve().parts[:-1], stem) for path, stem in zip(paths, stems, strict=True)]
    start = common_parts(parts)
    end = common_parts([folders[start:][::-1] for folders in parts])
    return ["/".join(folders[start : len(folders) - end]) for folders in parts]


def _read_all_tables(
    named: Sequence[tuple[str, str, Any]], cells: Cells, totals: counts.Totals, source: str
) -> Outcomes:
    """The outcomes of tables with their paths and names; a table without a column of models is of one, so named."""
    of_counts = [counts.is_counts(columns) for *_, columns in named]
    if named and all(of_counts) and not len(cells):
        tables_by_name = [(name, columns) for _, name, columns in named]
        return counts.read_counts(tables_by_name, cells.options.metric, totals, source)
    starts: list[int] = []
    for (where, name, columns), is_counts in zip(named, of_counts, strict=True):
        if is_counts:
            raise InputError(f"{where}: counts cannot be joined with scores per item; read the files one by one")
        starts.append(len(cells))
        tables.read_score_table(columns, where, name, cells)
    cells.check_overlap_of_tables(starts, [name for _, name, _ in named])
    files = tuple((where, "table", "", "") for where, *_ in named)
    return replace(_read_group_first(cells.outcomes(source), cells.options.group), files=files)


def _read_group_first(outcomes: Outcomes, group: str | None) -> Outcomes:
    """The group column that was asked for comes first: it is the one to cluster by."""
    if not group:
        return outcomes
    name = named_column(list(outcomes.groups), group, "group", "what was read")
    return replace(outcomes, groups={name: outcomes.groups[name]} | dict(outcomes.groups))


def _files_to_read(folder: Path) -> Iterator[Path]:
    """The files of a folder, and HELM runs as folders, in order; links to folders are not followed.

    Hidden folders are skipped, but not those that lm-evaluation-harness makes: "./model" becomes ".__model".
    """
    for where, folders, names in os.walk(folder):
        root = Path(where)
        folders[:] = sorted(name for name in folders if not name.startswith(".") or "__" in name)
        if any(harness.is_folder(root) for harness in HARNESSES):
            folders[:] = []
            yield root
            continue
        for name in sorted(names):
            if suffix_of(Path(name)) in SUFFIXES and not name.startswith("."):
                yield root / name


def _recognise_file(path: Path, named: bool, formats: _FilesByFormat, advance: Callable[[int], None]) -> None:
    """Sort a file by what it holds; in a folder, other files are passed over."""
    if path.is_dir():
        formats.logs[next(item for item in HARNESSES if item.is_folder(path))].append(LogFile(path, advance))
        return
    try:
        packed = is_gzip(path)
        with gzip.open(path) if packed else path.open("rb", buffering=1 << 16) as stream:
            start = stream.read(6)
            kind = _MAGIC.get(start[:4], "text")
            if kind == "text":
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
        try:
            with zipfile.ZipFile(path) as stored:
                names = stored.namelist()
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise InputError(f"{path}: cannot be read as a zip archive ({error})") from error
        if harness := next((harness for harness in HARNESSES if harness.is_archive(names)), None):
            formats.logs[harness].append(LogFile(path, advance))
        elif any(name.endswith(".npy") for name in names):
            formats.arrays.append(path)
        elif named:
            raise InputError(
                f"{path}: a zip archive of {few(names)}; expected an Inspect log (.eval) or an npz file; save a "
                "spreadsheet as CSV"
            )
    elif kind == "array":
        formats.arrays.append(path)
    elif (
        kind == "table"
        and (columns := parquet_columns(path))
        and any(item.is_parquet(columns) for item in HARNESSES)
    ):
        harness = next(item for item in HARNESSES if item.is_parquet(columns))
        formats.logs[harness].append(LogFile(path, advance))
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


def _recognise_json(
    path: Path, first: bytes, more: bool, named: bool, formats: _FilesByFormat, advance: Callable[[int], None]
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
            formats.logs[harness].append(LogFile(path, advance, not lines, formats.keep(path, whole)))
            return
        if harness.is_aggregate(row):
            formats.aggregates.append(path)
            return
        if named and harness.is_folder(path.parent):
            formats.logs[harness].append(LogFile(path.parent, advance))
            return
    rows = None if lines else json_score_rows(whole)
    if lines or rows is not None:
        formats.tables.append((path, rows if rows is None else formats.keep(path, rows)))
    else:
        formats.other_json.append((path, list(row) if isinstance(row, Mapping) else None))
