"""The pool of candidates, stored by content, and their sub-classes: the keywords of each class and their quotas."""

from __future__ import annotations

import functools
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardpan import arguments, files, tables
from hardpan.arguments import whole_number
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import file_hash, record
from hardpan.replicate import database
from hardpan.replicate.examples import Example, Texts
from hardpan.replicate.folder import ProjectFolder, hash_project_rows
from hardpan.replicate.sampling import largest_remainder_counts
from hardpan.report import Report

TOP = 25
_PROGRESS_EVERY = 500
MOST_BYTES = 64 * 1024 * 1024


def write_candidate(project: ProjectFolder, example: Example) -> str:
    """Keep a candidate in the pool under its content id, whole or not at all; give the id."""
    name = project.kind.digest(example)[:16]
    path = project.pool_file(name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when whole, but not flushed one by one: a pool has many thousands, and ids prove their content.
        fresh = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        project.kind.write(fresh, example)
        os.replace(fresh, path)
    project.keep_blinded(name, example)
    return name


PATHS, BYTES = ("path", "file", "image"), ("bytes", "image_bytes", "image")
MEANINGS = {"class", "label", "keyword", "subclass", "sub_class", "source", "date"}
_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class SourceExample:
    """An example of a source: its bytes or file (None outside the source's folder), and what is said of it."""

    name: str
    data: bytes | Path | None
    class_name: str = ""
    keyword: str = ""
    source: str = ""
    date: str = ""
    details: Mapping[str, str] = field(default_factory=dict)


@record(kind="KeywordShare", dropped=("share", "used"))
class KeywordQuota:
    """A keyword (sub-class) of a class: how many originals have it, and how many new images it should give.

    Attributes:
        class_name: the class.
        keyword: the sub-class.
        originals: originals with this keyword.
        quota: new images it should give, by largest remainder.
        supply: candidates it has.
    """

    class_name: str
    keyword: str
    originals: int
    quota: int
    supply: int


@record(kind="Subclasses", dropped=("coverage", "outside"))
class PoolSubclasses(Report):
    """What :func:`find_subclasses` did.

    Attributes:
        matched: originals whose keyword an exact match gave.
        unmatched: originals without a keyword.
        keywords: the kept keywords.
    """

    HEADLINE = "{matched} originals have a keyword, {unmatched} have none."

    matched: int
    unmatched: int
    keywords: tuple[KeywordQuota, ...]


@record
class AddedCandidates(Report):
    """What :func:`add_candidates` did: how many examples were read and what became of them.

    Attributes:
        read: examples offered.
        added: new candidates.
        repeated: exact copies of a candidate, of this source or an earlier one.
        in_original: exact copies of an original, which are left out.
        broken: "name: reason" of every example that could not be used.
        without_class: new candidates whose class is not known yet (their keyword may tell it later).
        subclasses: the keywords and their quotas, where they were requested.
    """

    HEADLINE = "{added} of {read} candidates added; {repeated} repeated, {in_original} in the original data."

    read: int
    added: int
    repeated: int
    in_original: int
    broken: tuple[str, ...]
    without_class: int
    subclasses: PoolSubclasses | None = None


def add_candidates(
    project: ProjectFolder,
    source: str | os.PathLike[str],
    *,
    per_class: int | None = None,
    keywords: str | os.PathLike[str] | None = None,
    text: str = "",
    progress: Progress = no_progress,
) -> AddedCandidates:
    """Put candidates into the pool; the same source again adds nothing.

    Args:
        project: an open project.
        source: a folder (CLASS/file or CLASS/KEYWORD/file, texts in UTF-8), or a table (CSV, Parquet, JSONL) with
            a column of texts (``text``, ``sentence``, ...), of image files as ``bytes``, or ``path`` (inside the
            folder of the table), and optionally class, keyword, source and date; other columns are kept.
        per_class: number of new images per class: also find the keywords (sub-classes) of the originals and how
            many new images each should give (see :func:`find_subclasses`).
        keywords: folder or table of images with keywords: originals get the keyword of the same image there.
        text: of a table, the column with the texts.
        progress: called with the step and the fraction done.
    """
    path = arguments.as_path("source", source)
    if per_class is None and keywords is not None:
        raise InputError("is needed to make quotas of keywords", argument="per_class")
    listed = list(read_pool_source(project, path, text))
    known = set(database.image_contents(project, "candidate"))
    originals = set(database.image_contents(project, "original"))
    counts: Counter[str] = Counter()
    broken: list[str] = []
    seen: list[tuple[str, str]] = []
    for start in range(0, len(listed), _AT_ONCE):
        progress(f"adding candidates, {start:,} of {len(listed):,}", start / len(listed))
        rows = []
        piece = listed[start : start + _AT_ONCE]
        with ThreadPoolExecutor() as threads:
            examples = list(threads.map(functools.partial(read_candidate, project), piece))
        for item, example in zip(piece, examples, strict=True):
            if isinstance(example, InputError):
                broken.append(str(example))
                continue
            name = project.kind.digest(example)[:16]
            seen.append((item.name, name))
            if name in originals:
                counts["original"] += 1
            elif name in known:
                counts["repeated"] += 1
            else:
                try:
                    rows.append(_pool_image_row(project, item, name, example))
                except InputError as error:
                    broken.append(f"{item.name}: {error}")
                    continue
                write_candidate(project, example)
                known.add(name)
                counts["without"] += rows[-1]["class_index"] is None
        counts["added"] += database.add_images(project, rows) if rows else 0
    added, repeated, in_original = counts["added"], counts["repeated"], counts["original"]
    if added:
        outputs = {"added": added, "repeated": repeated, "in_original": in_original, "broken": broken[:1000]}
        inputs = _pool_source_hashes(path, "pictures", seen)
        project.record_step("add", inputs=inputs, parameters={"source": path.name}, outputs=outputs)
    subclasses = None
    if per_class is not None:
        subclasses = find_subclasses(project, keywords, per_class=per_class, progress=progress)
    return AddedCandidates(len(listed), added, repeated, in_original, tuple(broken), counts["without"], subclasses)


def _pool_source_hashes(path: Path, name: str, pictures: Sequence[tuple[str, ...]]) -> dict[str, str]:
    hashes = {name: hash_project_rows(pictures)}
    return hashes | {"table": file_hash(path)} if path.is_file() else hashes


def read_pool_source(project: ProjectFolder, path: Path, text: str = "") -> Iterator[SourceExample]:
    """What a folder or table offers, in the order of names or rows."""
    if path.is_dir():
        yield from _pool_folder_examples(path)
    elif tables.is_table_file(path):
        yield from _pool_table_examples(project, path, text)
    else:
        raise InputError(f"{path}: candidates come from a folder or a table, such as a CSV or Parquet file")


def _pool_folder_examples(root: Path) -> Iterator[SourceExample]:
    limit = root.resolve()
    for file in sorted(p for p in root.rglob("*") if not p.name.startswith(".") and not p.is_dir()):
        parts = file.relative_to(root).parts
        if len(parts) > 3:
            raise InputError(f"{file}: is nested too deeply; use CLASS/file or CLASS/KEYWORD/file")
        yield SourceExample(
            file.relative_to(root).as_posix(),
            file if file.resolve().is_relative_to(limit) else None,
            parts[0] if len(parts) > 1 else "",
            parts[1] if len(parts) > 2 else "",
            source=root.name,
        )


def _pool_table_examples(project: ProjectFolder, path: Path, text: str) -> Iterator[SourceExample]:
    columns = tables.read_columns(path, text=files.suffix_of(path) in (".csv", ".tsv"))
    texts = isinstance(project.kind, Texts)
    named = tables.find_columns(list(columns), ["text"], {"text": text or None}, where=str(path)) if texts else {}
    column = next((name for name in (*named.values(), *(() if texts else BYTES), *PATHS) if name in columns), None)
    if column is None:
        what = "a column of texts (name it with --text)" if texts else "a column bytes"
        raise InputError(f"{path}: needs {what} or path; the columns are {', '.join(columns)}")
    limit = path.parent.resolve()
    others = [name for name in columns if name not in MEANINGS and name != column]

    def cell(row: int, *names: str) -> str:
        result = next((columns[name][row] for name in names if name in columns), None)
        return "" if result is None or result != result else str(result).strip()

    for row, value in enumerate(columns[column]):
        if isinstance(value, dict):  # how Hugging Face writes images
            value = value.get("bytes") or value.get("path") or ""
        if texts and column not in PATHS:
            value = str(value or "").encode("utf-8", "surrogatepass")
        name, data = f"row {row + 1}", value
        if not isinstance(value, bytes):
            name, file = str(value), path.parent / str(value)
            data = file if name and "\0" not in name and file.resolve().is_relative_to(limit) else None
        yield SourceExample(
            name,
            data,
            cell(row, "class", "label"),
            cell(row, "keyword", "subclass", "sub_class"),
            cell(row, "source") or path.name,
            cell(row, "date"),
            {other: str(columns[other][row]) for other in others if columns[other][row] is not None},
        )


def read_candidate(project: ProjectFolder, item: SourceExample) -> Example | InputError:
    """The example, or what is wrong with it."""
    try:
        if item.data is None:
            raise InputError(f"{item.name}: leads out of the folder")
        if isinstance(item.data, Path) and not item.data.is_file():
            raise InputError(f"{item.name}: is not there, or is no file")
        size = item.data.stat().st_size if isinstance(item.data, Path) else len(item.data)
        if size > MOST_BYTES:
            raise InputError(f"{item.name}: has more than {MOST_BYTES:,} bytes")
        return project.kind.decoded(item.data, item.name)
    except InputError as error:
        return error
    except OSError as error:
        return InputError(f"{item.name}: cannot be read ({error.strerror})")


def _pool_image_row(project: ProjectFolder, item: SourceExample, name: str, example: Example) -> dict[str, Any]:
    height, width = getattr(example, "shape", (0, 0))[:2]
    row = {
        "id": name,
        "kind": "candidate",
        "content": name,
        "class_index": project.config.class_index(item.class_name) if item.class_name else None,
        "keyword": item.keyword or None,
        "source": item.source,
        "date": item.date[:40] or None,
        "height": height,
        "width": width,
        "details": {"name": item.name, **item.details},
    }
    database.check_stored_image(row)
    return row


def pool_keyword_quotas(counts: Mapping[str, int], per_class: int, top: int = TOP) -> dict[str, int]:
    """How many of ``per_class`` images each of the ``top`` most common keywords should give, by largest remainder.

    Equal counts: names in order, the earlier kept; equal remainders go to the more common keyword.

    Example:
        >>> pool_keyword_quotas({"tabby": 6, "siamese": 3, "rare": 1}, 4, top=2)
        {'tabby': 3, 'siamese': 1}
    """
    common = sorted(counts, key=lambda name: (-counts[name], name))[:top]
    if not common:
        return {}
    # largest_remainder gives ties to later entries; reversed, those are the more common keywords.
    quotas = largest_remainder_counts([counts[name] for name in reversed(common)], per_class)
    return dict(zip(common, reversed(quotas.tolist()), strict=True))


def find_subclasses(
    project: ProjectFolder,
    source: str | os.PathLike[str] | None = None,
    *,
    per_class: int,
    progress: Progress = no_progress,
) -> PoolSubclasses:
    """Find originals' keywords, make quotas, and give candidates with a kept keyword their class.

    The arguments are those of :func:`add_candidates`; without ``source`` the originals keep their own keywords.
    """
    project.check_open()  # the sample of a frozen set is replayed with the quotas that it was drawn by
    whole_number("per_class", per_class, 1)
    inputs: dict[str, str] = {}
    if source is not None:
        words, inputs = _keywords_by_match(
            project, Path(source), database.image_contents(project, "original"), progress
        )
        database.set_image_column(project, "keyword", words, "keywords")
    originals = database.stored_images(project, "original")
    counts = keyword_counts(project)
    quotas = [pool_keyword_quotas(count, per_class) for count in counts]
    # A candidate that came with a keyword but without a class gets the class of the keyword, where that is one.
    owners = {word: [c for c, words in enumerate(quotas) if word in words] for words in quotas for word in words}
    classes = {
        row.id: owners[row.keyword][0]
        for row in database.stored_images(project, "candidate")
        if row.class_index is None and len(owners.get(row.keyword, ())) == 1
    }
    database.set_image_column(project, "class_index", classes, "classes")
    listed = [(c, word, counts[c][word], quota) for c, words in enumerate(quotas) for word, quota in words.items()]
    database.set_keyword_quotas(project, listed)
    supply = Counter(
        (row.class_index, row.keyword)
        for row in database.stored_images(project, "candidate")
        if row.split != "aside"
    )
    matched = sum(row.keyword is not None for row in originals)
    names = project.class_names
    keywords = tuple(KeywordQuota(names[c], word, have, quota, supply[c, word]) for c, word, have, quota in listed)
    project.record_step(
        "subclasses",
        inputs=inputs,
        parameters={"per_class": per_class, "top": TOP},
        outputs={"quotas": hash_project_rows(sorted([k.class_name, k.keyword, k.quota] for k in keywords))},
    )
    return PoolSubclasses(matched, len(originals) - matched, keywords)


def keyword_counts(project: ProjectFolder) -> list[Counter[str]]:
    """How many originals of each class have each keyword."""
    counts = [Counter[str]() for _ in project.classes]
    for row in database.stored_images(project, "original"):
        if row.keyword is not None and row.class_index is not None:
            counts[row.class_index][row.keyword] += 1
    return counts


def _keywords_by_match(
    project: ProjectFolder, source: Path, originals: Mapping[str, str], progress: Progress
) -> tuple[dict[str, str], dict[str, str]]:
    """Original id to keyword, of examples with the same content."""
    results: dict[str, str] = {}
    read = []
    listed = list(read_pool_source(project, source))
    for number, item in enumerate(listed):
        if number % _PROGRESS_EVERY == 0:
            progress(f"looking for originals, {number:,} of {len(listed):,}", number / len(listed))
        word = item.keyword or item.class_name
        example = read_candidate(project, item)
        if isinstance(example, InputError) or not word:
            continue
        name = project.kind.digest(example)[:16]
        read.append((item.name, name, word))
        if name in originals:
            results.setdefault(originals[name], word)
    return results, _pool_source_hashes(source, "source", read)


def pool_problems(project: ProjectFolder) -> list[str]:
    """Read every candidate of the pool again, and say which is not what its id says."""
    problems = []
    for row in database.stored_images(project, "candidate"):
        try:
            result = project.kind.digest(project.example(row.id, None))[:16]
            if result != row.id:
                problems.append(f"{row.id} holds another {project.kind.noun} ({result})")
        except (OSError, InputError, SyntaxError, ValueError) as error:
            problems.append(f"{row.id} cannot be read ({error})")
    return problems


def keyword_quota_problems(project: ProjectFolder) -> list[str]:
    """Make the quotas of keywords again, and say whether they differ."""
    for settings in [step.parameters for step in project.steps("subclasses")][-1:]:
        counts = keyword_counts(project)
        quotas = [pool_keyword_quotas(count, settings["per_class"], settings["top"]) for count in counts]
        again = {(c, word): quota for c, words in enumerate(quotas) for word, quota in words.items()}
        if again != database.stored_keyword_quotas(project):
            return ["they are not those of the originals' keywords"]
    return []
