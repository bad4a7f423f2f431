"""Run folders of HELM: ``run_spec.json``, ``per_instance_stats.json`` and ``scenario_state.json``.

The metric is the first of the run's own that lies in [0, 1] for every instance. Train trials are repeats; perturbed
instances are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardpan.errors import InputError
from hardpan.outcomes.cells import (
    Cells,
    Harness,
    LogFile,
    Options,
    as_list,
    as_mapping,
    group_columns,
    score_of,
    stated,
)
from hardpan.safe_files import few, read_json

MARKER = "per_instance_stats.json"
_NOT_SCORES = ("num_", "max_prob", "logprob", "finish_reason_", "inference_", "training_", "batch_size", "prompt_")


def is_run(folder: Path) -> bool:
    """Whether a folder is a HELM run."""
    return (folder / MARKER).is_file() and (folder / "run_spec.json").is_file()


def read_runs(runs: Sequence[LogFile], cells: Cells, options: Options) -> None:
    """Read run folders into the cells; each path is that of a folder."""
    metrics: dict[str, str] = {}
    perturbed = 0
    for run in runs:
        spec = read_json(run.path / "run_spec.json")
        rows = read_json(run.path / MARKER)
        adapter = spec.get("adapter_spec") if isinstance(spec, Mapping) else None
        if not isinstance(adapter, Mapping) or not isinstance(rows, list):
            raise InputError(f"{run.path}: not a HELM run (run_spec.json or {MARKER} has another form)")
        perturbed += _read_run(run, spec, adapter, rows, cells, options, metrics)
        run.advance((run.path / MARKER).stat().st_size)
    if metrics:
        cells.notes.append(stated("Metric", metrics))
    if perturbed:
        cells.notes.append(f"{perturbed:,} perturbed instances were skipped.")


def _read_run(
    run: LogFile,
    spec: Mapping[str, Any],
    adapter: Mapping[str, Any],
    rows: Sequence[Any],
    cells: Cells,
    options: Options,
    metrics: dict[str, str],
) -> int:
    task = _run_task(str(spec.get("name", run.path.name)))
    model_name = str(adapter.get("model") or adapter.get("model_deployment") or run.path.name)
    model = cells.model_of_log(model_name, run.path.resolve().parent, task)
    scenario = spec.get("scenario_spec")
    arguments = scenario.get("args") if isinstance(scenario, Mapping) else None
    columns = group_columns(arguments, options.group)
    answers = _answers(run.path)
    plain = [row for row in rows if isinstance(row, Mapping) and not row.get("perturbation")]
    metric = _scoring_metric(plain, spec, options.metric, str(run.path))
    metrics.setdefault(task, metric)
    for row in plain:
        name, trial = row.get("instance_id"), _trial_number(row)
        if not isinstance(name, str):
            raise InputError(f"{run.path / MARKER}: an instance has no instance_id; the file may be damaged")
        item = cells.item((task, name), f"{task}/{name}")
        cells.describe(item, {"task": task, **columns})
        answer, key, question = answers.get((name, trial), ("", "", ""))
        cells.ask(item, question)
        if key:
            cells.set_key(item, key)
        values = _metric_values(row).get(metric)
        cells.add(model, item, values, run=trial, answer=answer, where=str(run.path))
    return len(rows) - len(plain)


def _run_task(name: str) -> str:
    """The name of a run without its model: "mmlu:subject=philosophy,method=joint"."""
    scenario, _, rest = name.partition(":")
    selected = [item for item in rest.split(",") if item and not item.startswith(("model=", "model_deployment="))]
    return f"{scenario}:{','.join(selected)}" if selected else scenario


def _trial_number(row: Mapping[str, Any]) -> int:
    trial = row.get("train_trial_index", 0)
    return trial if isinstance(trial, int) and 0 <= trial < 1 << 31 else 0


def _metric_values(row: Mapping[str, Any]) -> dict[str, float]:
    values = {}
    for stat in as_list(row.get("stats")):
        name = stat.get("name") if isinstance(stat, Mapping) else None
        if isinstance(name, Mapping) and not name.get("perturbation"):
            value = score_of(stat.get("mean", stat.get("sum")))
            if value is not None:
                values[str(name.get("name"))] = value
    return values


def _scoring_metric(
    rows: Sequence[Mapping[str, Any]], spec: Mapping[str, Any], wanted: str | None, where: str
) -> str:
    names: dict[str, bool] = {}
    for row in rows:
        for name, value in _metric_values(row).items():
            names[name] = names.get(name, True) and 0.0 <= value <= 1.0
    if wanted is not None:
        if wanted not in names:
            raise InputError(f"{where}: metric must be one of {few(sorted(names))}; got {wanted!r}")
        return wanted
    declared = [
        str(name)
        for metric in as_list(spec.get("metric_specs"))
        if isinstance(metric, Mapping) and isinstance(metric.get("args"), Mapping)
        for name in as_list(metric["args"].get("names"))
    ]
    others = [name for name in names if not name.startswith(_NOT_SCORES)]
    for name in (*declared, *others):
        if names.get(name):
            return name
    raise InputError(f"{where}: no metric lies between 0 and 1; the metrics are {few(sorted(names)) or 'missing'}")


def _answers(folder: Path) -> dict[tuple[str, int], tuple[str, str, str]]:
    """Answer, key and question by instance and trial, where one request was made for each."""
    path = folder / "scenario_state.json"
    if not path.is_file():
        return {}
    data = read_json(path)
    states = data.get("request_states") if isinstance(data, Mapping) else None
    answers: dict[tuple[str, int], tuple[str, str, str]] = {}
    for state in states if isinstance(states, list) else ():
        if not isinstance(state, Mapping) or not isinstance(state.get("instance"), Mapping):
            continue
        instance = state["instance"]
        key = (str(instance.get("id")), _trial_number(state))
        if instance.get("perturbation"):
            continue
        # Several requests for an instance, one per choice: none of them is the model's answer.
        question = str(as_mapping(instance.get("input")).get("text", ""))
        several = key in answers
        answers[key] = (
            ("", "", question)
            if several
            else (_completion_text(state), _reference_answer(state, instance), question)
        )
    return answers


def _completion_text(state: Mapping[str, Any]) -> str:
    result = state.get("result")
    completions = result.get("completions") if isinstance(result, Mapping) else None
    first = completions[0] if isinstance(completions, list) and completions else None
    text = first.get("text") if isinstance(first, Mapping) else None
    return text.strip() if isinstance(text, str) else ""


def _reference_answer(state: Mapping[str, Any], instance: Mapping[str, Any]) -> str:
    right = [
        str(reference["output"].get("text", ""))
        for reference in as_list(instance.get("references"))
        if isinstance(reference, Mapping)
        and "correct" in as_list(reference.get("tags"))
        and isinstance(reference.get("output"), Mapping)
    ]
    if not right:
        return ""
    mapping = state.get("output_mapping")
    letters = (
        [letter for letter, text in mapping.items() if text == right[0]] if isinstance(mapping, Mapping) else []
    )
    return str(letters[0]) if len(letters) == 1 else right[0]


HARNESS = Harness("HELM runs", read_runs, is_folder=is_run)
