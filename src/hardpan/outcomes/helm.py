"""Run folders of HELM: ``run_spec.json``, ``per_instance_stats.json`` and ``scenario_state.json``.

The metric is the first of the run's own that lies in [0, 1] for every instance. Train trials are repeats; perturbed
instances are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardpan.errors import InputError, few
from hardpan.files import read_json
from hardpan.outcomes.cells import Cells, Harness, LogFile, as_list, as_mapping, json_at, score_of

MARKER = "per_instance_stats.json"
_NOT_SCORES = ("num_", "max_prob", "logprob", "finish_reason_", "inference_", "training_", "batch_size", "prompt_")


def is_run(folder: Path) -> bool:
    """Whether a folder is a HELM run."""
    return (folder / MARKER).is_file() and (folder / "run_spec.json").is_file()


def read_runs(runs: Sequence[LogFile], cells: Cells) -> None:
    """Read run folders into the cells; each path is that of a folder."""
    metrics: dict[str, str] = {}
    perturbed = 0
    for run in runs:
        spec, rows = read_json(run.path / "run_spec.json"), read_json(run.path / MARKER)
        adapter = json_at(spec, "adapter_spec")
        if not isinstance(adapter, dict) or not isinstance(rows, list):
            raise InputError(f"{run.path}: not a HELM run (run_spec.json or {MARKER} has another form)")
        task = _run_task(str(spec.get("name", run.path.name)))
        model_name = str(adapter.get("model") or adapter.get("model_deployment") or run.path.name)
        model = cells.model_of_log(model_name, run.path.resolve().parent, task)
        plain = [row for row in rows if isinstance(row, dict) and not row.get("perturbation")]
        perturbed += len(rows) - len(plain)
        metric = _scoring_metric(plain, spec, cells.options.metric, str(run.path))
        metrics.setdefault(task, metric)
        answers = _request_answers(run.path)
        for row in plain:
            name, trial = row.get("instance_id"), _trial_number(row)
            if not isinstance(name, str):
                raise InputError(f"{run.path / MARKER}: an instance has no instance_id; the file may be damaged")
            item = cells.item((task, name), f"{task}/{name}")
            cells.describe_document(item, task, json_at(spec, "scenario_spec", "args"))
            answer, key, question = answers.get((name, trial), ("", "", ""))
            cells.ask(item, question)
            if key:
                cells.set_key(item, key)
            cells.add(model, item, _metric_values(row).get(metric), run=trial, answer=answer, where=str(run.path))
        run.advance((run.path / MARKER).stat().st_size)
    cells.note_by_task("Metric", metrics)
    if perturbed:
        cells.notes.append(f"{perturbed:,} perturbed instances were skipped.")


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
        name = as_mapping(json_at(stat, "name"))
        value = score_of(stat.get("mean", stat.get("sum"))) if name and not name.get("perturbation") else None
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
    specs = as_list(spec.get("metric_specs"))
    declared = [str(name) for metric in specs for name in as_list(json_at(metric, "args", "names"))]
    others = [name for name in names if not name.startswith(_NOT_SCORES)]
    for name in (*declared, *others):
        if names.get(name):
            return name
    raise InputError(f"{where}: no metric lies between 0 and 1; the metrics are {few(sorted(names)) or 'missing'}")


def _request_answers(folder: Path) -> dict[tuple[str, int], tuple[str, str, str]]:
    """Answer, key and question by instance and trial, where one request was made for each."""
    path = folder / "scenario_state.json"
    answers: dict[tuple[str, int], tuple[str, str, str]] = {}
    for state in as_list(json_at(read_json(path), "request_states")) if path.is_file() else ():
        instance = json_at(state, "instance")
        if not isinstance(instance, dict) or instance.get("perturbation"):
            continue
        key = (str(instance.get("id")), _trial_number(state))
        question = str(json_at(instance, "input", "text") or "")
        if key in answers:  # several requests for an instance, one per choice: none of them is the model's answer
            answers[key] = ("", "", question)
        else:
            text = json_at(state, "result", "completions", 0, "text")
            answer = text.strip() if isinstance(text, str) else ""
            answers[key] = (answer, _reference_answer(state, instance), question)
    return answers


def _reference_answer(state: Mapping[str, Any], instance: Mapping[str, Any]) -> str:
    right = [
        str(json_at(reference, "output", "text") or "")
        for reference in as_list(instance.get("references"))
        if "correct" in as_list(json_at(reference, "tags"))
    ]
    if not right:
        return ""
    mapping = as_mapping(state.get("output_mapping"))
    letters = [letter for letter, text in mapping.items() if text == right[0]]
    return str(letters[0]) if len(letters) == 1 else right[0]


HARNESS = Harness("HELM runs", read_runs, is_folder=is_run)
