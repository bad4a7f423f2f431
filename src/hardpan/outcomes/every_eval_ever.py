"""Instance-level files of Every Eval Ever: JSON Lines with ``model_id``, ``sample_id`` and ``evaluation``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardpan.errors import InputError
from hardpan.outcomes.cells import Cells, number
from hardpan.outcomes.sources import LogFile, Options, group_columns


def is_instance(row: Any) -> bool:
    """Whether a JSON object is an instance of the schema."""
    return isinstance(row, Mapping) and isinstance(row.get("evaluation"), Mapping) and "sample_id" in row


def is_aggregate(data: Any) -> bool:
    """Whether a JSON object holds only aggregate results of the schema."""
    return isinstance(data, Mapping) and "evaluation_results" in data and "schema_version" in data


def read(logs: Sequence[LogFile], cells: Cells, options: Options) -> None:
    """Read instance files into the cells; a second run of a model on an item is a repeat."""
    runs: dict[str, int] = {}
    for log in logs:
        for line, row in enumerate(log.rows(), start=1):
            where = f"{log.path}, line {line}"
            if not is_instance(row):
                raise InputError(f"{where}: not an instance of Every Eval Ever (no sample_id or evaluation)")
            task, name = str(row.get("evaluation_name") or row.get("evaluation_result_id") or ""), row["sample_id"]
            model = cells.model(str(row.get("model_id") or log.path.stem))
            digest = row.get("sample_hash")
            item = cells.item(
                (task, digest if isinstance(digest, str) and digest else str(name)),
                f"{task}/{name}" if task else str(name),
            )
            metadata = row.get("metadata")
            columns = group_columns(metadata if isinstance(metadata, Mapping) else {}, options.groups)
            cells.describe(item, {"task": task, **columns})
            answer, key = _answer(row), _key(row)
            if key:
                cells.set_key(item, key)
            evaluation = row["evaluation"]
            value = number(evaluation.get("score"))
            if value is None:
                value = number(evaluation.get("is_correct"))
            run = runs.setdefault(str(row.get("evaluation_id", "")), len(runs))
            cells.add(model, item, value, run=run, answer=answer, where=where)


def _answer(row: Mapping[str, Any]) -> str:
    listed = row.get("answer_attribution")
    terminal = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    terminal = [item for item in terminal if item.get("is_terminal")] or terminal
    text = terminal[-1].get("extracted_value") if terminal else None
    return text if isinstance(text, str) else ""


def _key(row: Mapping[str, Any]) -> str:
    prompt = row.get("input")
    reference = prompt.get("reference") if isinstance(prompt, Mapping) else None
    if isinstance(reference, list):
        reference = reference[0] if len(reference) == 1 else None
    return reference if isinstance(reference, str) else ""
