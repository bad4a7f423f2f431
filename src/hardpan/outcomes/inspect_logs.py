"""Logs of Inspect: ``.eval`` archives and ``.json`` files.

A score is "C" (1), "P" (0.5), "I" (0), "N" (no answer: not parsed), a number, a boolean, or a mapping of
such values. Epochs are repeats. An archive is read from its summaries; from its samples where there are none, or
where the samples have answers or metadata that the summaries leave out.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hardpan.errors import InputError, few, reason
from hardpan.files import LARGEST_JSON, parse_json
from hardpan.outcomes.cells import Cells, score_of
from hardpan.outcomes.logs import Harness, LogFile, json_at, json_list, json_object, logged_run

ZSTANDARD = 93
MOST_MEMBERS = 2_000_000
_IDLE = 5  # samples in a row that hold no more than their summaries, after which only summaries are read
_SAMPLE = re.compile(r"samples/.+\.json", re.DOTALL)
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0}
_BROKEN = (OSError, ValueError, KeyError, EOFError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error)


def is_inspect_log(data: Any) -> bool:
    """Whether a JSON object is an Inspect log."""
    return isinstance(data, Mapping) and isinstance(data.get("eval"), Mapping) and "model" in data["eval"]


def read_inspect_logs(logs: Sequence[LogFile], cells: Cells) -> None:
    """Read logs into the cells, and state which scorer was chosen."""
    scorers: dict[str, tuple[str, str]] = {}
    unfinished, empty, failed = [], [], list[tuple[int, int, int]]()
    for log in logs:
        if log.one_value:
            header = log.value()
            samples = iter(json_list(header, "samples"))
        else:
            archive = _EvalArchive(log)
            header, samples = archive.header(), archive.samples()
        if not is_inspect_log(header):
            raise InputError(f"{log.path}: not an Inspect log (no eval.model in its header)")
        if not _read_inspect_log(log, header, samples, cells, scorers, failed):
            empty.append(log.path)
        elif header.get("status", "started") != "success":
            unfinished.append(log.path.name)
    cells.add_failed(failed)
    if len(empty) == len(logs):
        raise InputError(f"{empty[0]}: the log has no samples; expected one written with log_samples")
    if empty:
        cells.notes.append(f"Logs without samples, not read: {few([path.name for path in empty], 3)}.")
    names = {task: f"{name}, {metric}" if metric else name for task, (name, metric) in scorers.items()}
    cells.note_by_task("Scorer", names)
    if unfinished:
        cells.notes.append(f"Evaluations that did not finish, read as far as they got: {few(unfinished, 3)}.")


def _read_inspect_log(
    log: LogFile,
    header: Mapping[str, Any],
    samples: Iterator[Mapping[str, Any]],
    cells: Cells,
    scorers: dict[str, tuple[str, str]],
    failed: list[tuple[int, int, int]],
) -> bool:
    """Read a log, and say whether it has samples."""
    evaluation = header["eval"]
    task, model = str(evaluation.get("task", "")), None
    asked = cells.options.scorer
    first = json_at(header, "results", "scores", 0) or json_at(header, "eval", "scorers", 0)
    declared = str(json_at(first, "scorer") or json_at(first, "name") or "").rpartition("/")[2]
    scorer, seen = asked, dict[str, None]()
    for sample in samples:
        if model is None:
            model = cells.model_of_log(str(evaluation["model"]), log.path.resolve().parent, task)
            created = str(evaluation.get("created") or "")[:10]
            cells.describe_model(model, "date", created)
            cells.files[log.path] = str(json_at(evaluation, "packages", "inspect_ai") or ""), created
        if not isinstance(sample, Mapping) or "id" not in sample:
            raise InputError(f"{log.path}: a sample has no id; the log may be damaged")
        scores = sample.get("scores")
        if not isinstance(scores, Mapping):
            scores = {"score": sample["score"]} if isinstance(sample.get("score"), Mapping) else {}
        seen |= dict.fromkeys(map(str, scores))
        if scorer is None and scores:  # one scorer for all logs of a task where they have it
            usual = (name for name in (scorers.get(task, ("",))[0], declared) if name in scores)
            scorer = next(usual, None) or str(next(iter(scores)))
        name = sample["id"]
        item = cells.item((task, str(name)), f"{task}/{name}" if task else str(name))
        cells.describe_document(item, task, sample.get("metadata"))
        said = sample.get("input")
        questions = [
            json_at(message, "content") for message in json_list(said) if json_at(message, "role") == "user"
        ]
        cells.ask(item, questions[-1] if questions else said)
        target = sample.get("target")
        if isinstance(target, list) and len(target) == 1:
            target = target[0]
        if isinstance(target, str):
            cells.set_key(item, target)
            if (choices := json_list(sample, "choices")) and len(target) == 1 and target.isascii():
                cells.choose(item, choices)
                cells.set_right_choice(item, ord(target.upper()) - ord("A"), True)
        score = scores.get(scorer) if scorer is not None else None
        value = score.get("value") if isinstance(score, Mapping) else score
        value, metric = _score_value(value, cells.options.metric, str(log.path))
        if score is not None and scorer is not None:
            scorers.setdefault(task, (scorer, metric))
        answer = json_at(score, "answer")
        run = logged_run(sample.get("epoch", 1))
        if not scores and sample.get("error"):
            failed.append((model, item, run))
            continue
        cells.add(
            model,
            item,
            _LETTERS[value] if isinstance(value, str) and value in _LETTERS else score_of(value),
            run=run,
            answer=answer if isinstance(answer, str) else "",
            where=str(log.path),
            text=_transcript(sample),
        )
    if asked is not None and seen and asked not in seen:
        raise InputError(f"{log.path}: scorer must be one of {few(list(seen))}; got {asked!r}")
    return model is not None


def _transcript(sample: Mapping[str, Any]) -> str:
    """The messages of a sample after its input, as text."""
    said = [
        (str(json_at(message, "role")), content if isinstance(content, str) else json_at(content, 0, "text") or "")
        for message in json_list(sample, "messages")[1:]
        for content in [json_at(message, "content")]
    ]
    return "\n\n".join(f"{role}: {text}" for role, text in said if text)


def _score_value(value: Any, metric: str | None, where: str) -> tuple[Any, str]:
    """One value of a score, and its name where the score has several."""
    name = ""
    if isinstance(value, Mapping):
        if metric is not None and metric not in value:
            raise InputError(f"{where}: metric must be one of {few(list(value))}; got {metric!r}")
        name = metric if metric is not None else str(next(iter(value), ""))
        value = value.get(name)
    if isinstance(value, list):
        value = value[0] if len(value) == 1 else None
    return value, name


class _EvalArchive:
    """A zip file whose members may be compressed with deflate or zstandard."""

    def __init__(self, log: LogFile) -> None:
        self._log = log
        try:
            self._stored = zipfile.ZipFile(log.path)
        except _BROKEN as error:
            raise InputError(f"{log.path}: cannot be read as an .eval archive ({reason(error)})") from error
        members = self._stored.infolist()
        if len(members) > MOST_MEMBERS:
            raise InputError(f"{log.path}: more than {MOST_MEMBERS:,} members; not an .eval archive")
        self._members = {member.filename: member for member in members}

    def header(self) -> Any:
        """What the log says of the evaluation."""
        return self._json("header.json" if "header.json" in self._members else "_journal/start.json")

    def _json(self, name: str) -> Any:
        if name not in self._members:
            raise InputError(f"{self._log.path}: member {name} is missing; the archive may be cut")
        return parse_json(self._content(self._members[name]), f"{self._log.path}, member {name}")

    def samples(self) -> Iterator[Mapping[str, Any]]:
        """The samples: summaries where they have scores, else the samples themselves."""
        try:
            names = ["summaries.json"] if "summaries.json" in self._members else []
            names = names or sorted(name for name in self._members if name.startswith("_journal/summaries/"))
            summarised, idle = False, 0
            for row in (json_object(row) for name in names for row in json_list(self._json(name))):
                summarised = True
                member = f"samples/{row.get('id')}_epoch_{row.get('epoch')}.json"
                if idle < _IDLE and member in self._members:
                    sample = json_object(self._json(member))
                    more = self._detail_count(sample) > self._detail_count(row)
                    idle, row = (0, sample) if more else (idle + 1, row)
                yield row
            if not summarised:
                yield from (self._json(name) for name in self._members if _SAMPLE.fullmatch(name))
            self._log.advance(self._log.path.stat().st_size)
        finally:
            self._stored.close()

    @staticmethod
    def _detail_count(sample: Mapping[str, Any]) -> int:
        """How many of scores, answers and metadata a sample or its summary has."""
        scores = json_object(sample, "scores")
        answered = any(json_at(score, "answer") for score in scores.values())
        return bool(scores) + answered + bool(sample.get("metadata"))

    def _content(self, member: zipfile.ZipInfo) -> bytes:
        path = self._log.path
        if member.flag_bits & 1:
            raise InputError(f"{path}: member {member.filename} is encrypted; expected a plain .eval archive")
        if member.file_size > LARGEST_JSON:
            raise InputError(f"{path}: member {member.filename} is larger than {LARGEST_JSON >> 20:,} MB")
        try:
            if member.compress_type == ZSTANDARD:
                return self._unpacked_zstandard(member)
            with self._stored.open(member) as content:
                return content.read(member.file_size)
        except NotImplementedError as error:
            raise InputError(f"{path}: member {member.filename} is compressed in an unsupported way") from error
        except _BROKEN as error:
            raise InputError(f"{path}: member {member.filename} cannot be read ({reason(error)})") from error

    def _unpacked_zstandard(self, member: zipfile.ZipInfo) -> bytes:
        """A member behind its local header (30 bytes, the name, extra fields)."""
        import pyarrow  # only archives with zstandard members need it

        with self._log.path.open("rb") as file:
            file.seek(member.header_offset)
            header = file.read(30)
            if header[:4] != b"PK\x03\x04":
                raise ValueError("no local header where the directory says")
            file.seek(sum(struct.unpack("<HH", header[26:30])), 1)
            packed = pyarrow.BufferReader(file.read(member.compress_size))
        with pyarrow.input_stream(packed, compression="zstd") as stream:
            unpacked: bytes = stream.read(member.file_size + 1)
        if len(unpacked) != member.file_size:
            raise ValueError(f"holds {len(unpacked):,} bytes or more, and declares {member.file_size:,}")
        return unpacked


HARNESS = Harness(
    "Inspect logs",
    read_inspect_logs,
    is_inspect_log,
    is_archive=lambda names: "header.json" in names or "_journal/start.json" in names,
)
