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
from hardpan.outcomes.cells import Cells, score_of
from hardpan.outcomes.logs import Harness, LogFile, json_at, json_list, json_object, logged_run

MARKER = "per_instance_stats.json"
_NOT_SCORES = ("num_", "max_prob", "logprob", "finish_reason_", "inference_", "training_", "batch_size", "prompt_")


def read_helm_runs(runs: Sequence[LogFile], cells: Cells) -> None:
    """Read run folders into the cells; each path is that of a folder."""
    metrics: dict[str, str] = {}
    perturbed = 0
    for run in runs:
        spec, rows = read_json(run.path / "run_spec.json"), read_json(run.path / MARKER)
        adapter = json_at(spec, "adapter_spec")
        if not isinstance(adapter, dict) or not isinstance(rows, list):
            raise InputError(f"{run.path}: not a HELM run (run_spec.json or {MARKER} has another form)")
        # The name of a run without its model: "mmlu:subject=philosophy,method=joint".
        scenario, _, rest = str(spec.get("name", run.path.name)).partition(":")
        fields = [name for name in rest.split(",") if name and not name.startswith(("model=", "model_deployment="))]
        task = f"{scenario}:{','.join(fields)}" if fields else scenario
        model_name = str(adapter.get("model") or adapter.get("model_deployment") or run.path.name)
        model = cells.model_of_log(model_name, run.path.resolve().parent, task)
        plain = [row for row in rows if isinstance(row, dict) and not row.get("perturbation")]
        perturbed += len(rows) - len(plain)
        metric = _helm_metric(plain, spec, cells.options.metric, str(run.path))
        metrics.setdefault(task, metric)
        answers = _helm_answers(run.path)
        for row in plain:
            name, trial = row.get("instance_id"), logged_run(row.get("train_trial_index", 0))
            if not isinstance(name, str):
                raise InputError(f"{run.path / MARKER}: an instance has no instance_id; the file may be damaged")
            item = cells.item((task, name), f"{task}/{name}")
            cells.describe_document(item, task, json_at(spec, "scenario_spec", "args"))
            answer, key, question = answers.get((name, trial), ("", "", ""))
            cells.ask(item, question)
            if key:
                cells.set_key(item, key)
            cells.add(
                model, item, _helm_metric_values(row).get(metric), run=trial, answer=answer, where=str(run.path)
            )
        run.advance((run.path / MARKER).stat().st_size)
    cells.note_by_task("Metric", metrics)
    if perturbed:
        cells.notes.append(f"{perturbed:,} perturbed instances were skipped.")


def _helm_metric_values(row: Mapping[str, Any]) -> dict[str, float]:
    values = {}
    for stat in json_list(row, "stats"):
        name = json_object(stat, "name")
        value = score_of(stat.get("mean", stat.get("sum"))) if name and not name.get("perturbation") else None
        if value is not None:
            values[str(name.get("name"))] = value
    return values


def _helm_metric(rows: Sequence[Mapping[str, Any]], spec: Mapping[str, Any], wanted: str | None, where: str) -> str:
    names: dict[str, bool] = {}
    for row in rows:
        for name, value in _helm_metric_values(row).items():
            names[name] = names.get(name, True) and 0.0 <= value <= 1.0
    if wanted is not None:
        if wanted not in names:
            raise InputError(f"{where}: metric must be one of {few(sorted(names))}; got {wanted!r}")
        return wanted
    specs = json_list(spec, "metric_specs")
    declared = [str(name) for metric in specs for name in json_list(metric, "args", "names")]
    others = [name for name in names if not name.startswith(_NOT_SCORES)]
    if metric := next(filter(names.get, (*declared, *others)), None):
        return metric
    raise InputError(f"{where}: no metric lies between 0 and 1; the metrics are {few(sorted(names))}")


def _helm_answers(folder: Path) -> dict[tuple[str, int], tuple[str, str, str]]:
    """Answer, key and question by instance and trial, where one request was made for each."""
    path = folder / "scenario_state.json"
    answers: dict[tuple[str, int], tuple[str, str, str]] = {}
    for state in json_list(read_json(path), "request_states") if path.is_file() else ():
        instance = json_object(state, "instance")
        if not instance or instance.get("perturbation"):
            continue
        instance_trial = (str(instance.get("id")), logged_run(state.get("train_trial_index", 0)))
        question = str(json_at(instance, "input", "text") or "")
        if instance_trial in answers:  # one request per choice: none of them is the model's answer
            answers[instance_trial] = ("", "", question)
            continue
        text = json_at(state, "result", "completions", 0, "text")
        references = json_list(instance, "references")
        right = [json_at(item, "output", "text") for item in references if "correct" in json_list(item, "tags")]
        key = str(right[0] or "") if right else ""
        letters = [letter for letter, choice in json_object(state, "output_mapping").items() if choice == key]
        key = str(letters[0]) if key and len(letters) == 1 else key
        answers[instance_trial] = (text.strip() if isinstance(text, str) else "", key, question)
    return answers


HARNESS = Harness(
    "HELM runs",
    read_helm_runs,
    is_folder=lambda folder: (folder / MARKER).is_file() and (folder / "run_spec.json").is_file(),
)
