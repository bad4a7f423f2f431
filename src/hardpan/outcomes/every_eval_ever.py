"""Instance-level files of Every Eval Ever: JSON Lines with ``model_id``, ``sample_id`` and ``evaluation``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hardpan.errors import InputError
from hardpan.outcomes.cells import Cells, Harness, LogFile, Options, as_mapping, group_columns, score_of
from hardpan.safe_files import few


def is_instance(row: Any) -> bool:
    """Whether a JSON object is an instance of the schema."""
    return isinstance(row, Mapping) and isinstance(row.get("evaluation"), Mapping) and "sample_id" in row


def is_aggregate(data: Any) -> bool:
    """Whether a JSON object holds only aggregate results of the schema."""
    return isinstance(data, Mapping) and "evaluation_results" in data and "schema_version" in data


def read_instances(logs: Sequence[LogFile], cells: Cells, options: Options) -> None:
    """Read instance files into the cells; a second run of a model on an item, or an epoch, is a repeat.

    A sample that several metrics score has one row for each: the first is read, or that of ``options.metric``.
    """
    runs: dict[tuple[str, str], int] = {}
    skipped = 0
    for log in logs:
        results: dict[tuple[int, int], str] = {}  # which result the row of a cell belongs to
        hashes: dict[tuple[str, str], dict[str, int]] = {}
        names: dict[str, bool] = {}
        for line, row in enumerate(log.rows(), start=1):
            where = f"{log.path}, line {line}"
            if not is_instance(row):
                raise InputError(f"{where}: not an instance of Every Eval Ever (no sample_id or evaluation)")
            result = str(row.get("evaluation_result_id") or "")
            selected = options.metric is None or options.metric in (result, re.split(r"[^\w-]+", result)[-1])
            names[result] = selected
            if not selected:
                continue
            task, name = str(row.get("evaluation_name") or result), row["sample_id"]
            model = cells.model(str(row.get("model_id") or log.path.stem))
            # Models are joined by sample_id: hashes of the prompt differ where models have chat templates of their
            # own. Samples of one file with one id and several hashes are several items.
            known = hashes.setdefault((task, str(name)), {})
            which = known.setdefault(str(row.get("sample_hash") or ""), len(known))
            item = cells.item((task, str(name), which), f"{task}/{name}" if task else str(name))
            metadata = as_mapping(row.get("metadata"))
            run = runs.setdefault((str(row.get("evaluation_id", "")), str(metadata.get("epoch", ""))), len(runs))
            if results.setdefault((item, run), result) != result:
                skipped += 1
                continue
            cells.describe(item, {"task": task, **group_columns(metadata, options.group)})
            cells.ask(item, as_mapping(row.get("input")).get("raw"))
            answer, key = _extracted_answer(row), _reference_answer(row)
            if key:
                cells.set_key(item, key)
            evaluation = row["evaluation"]
            value = score_of(evaluation.get("score"))
            if value is None:
                value = score_of(evaluation.get("is_correct"))
            cells.add(model, item, value, run=run, answer=answer, where=where)
        if not any(names.values()):
            raise InputError(f"{log.path}: metric must be one of {few(list(names))}; got {options.metric!r}")
    if skipped:
        cells.notes.append(
            f"{skipped:,} rows of further metrics of a sample were not read; metric= takes an evaluation_result_id."
        )


def _extracted_answer(row: Mapping[str, Any]) -> str:
    listed = row.get("answer_attribution")
    terminal = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    terminal = [item for item in terminal if item.get("is_terminal")] or terminal
    text = terminal[-1].get("extracted_value") if terminal else None
    return text if isinstance(text, str) else ""


def _reference_answer(row: Mapping[str, Any]) -> str:
    prompt = row.get("input")
    reference = prompt.get("reference") if isinstance(prompt, Mapping) else None
    if isinstance(reference, list):
        reference = reference[0] if len(reference) == 1 else None
    return reference if isinstance(reference, str) else ""


HARNESS = Harness("Every Eval Ever files", read_instances, is_instance, is_aggregate=is_aggregate)
