"""Logs of benchmarks of agents: SWE-bench, SWE-bench Pro, terminal-bench and Harbor.

An item is a task that an agent resolves or not. What ended in an error, a timeout or an empty patch is a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardpan.errors import InputError
from hardpan.files import read_json
from hardpan.outcomes.log_entries import LogEntry, entry_harness, model_of_path
from hardpan.outcomes.logs import LogFile, json_at, json_list, json_object

_FAILED_LISTS = ("empty_patch_ids", "error_ids", "no_generation", "no_logs")
_WRONG_LISTS = ("unresolved_ids", "completed_ids", "submitted_ids", "generated", "with_logs", "applied", "no_apply")
_PRO_INSTANCE = re.compile(r"instance_.+__.+")
_SUBMISSION = re.compile(r"\d{8}_.+")
_ATTEMPT = re.compile(r"\.(\d+)-of-\d+")
_TRIAL = frozenset(("task_id", "trial_name", "is_resolved"))


def is_swe_bench_report(data: Any) -> bool:
    """Whether a JSON object lists the instances that were resolved and others, or is the report of one instance."""
    if not isinstance(data, dict):
        return False
    if isinstance(data.get("resolved_ids"), list):
        return any(isinstance(data.get(name), list) for name in (*_FAILED_LISTS, *_WRONG_LISTS))
    if isinstance(data.get("resolved"), list):
        return any(isinstance(data.get(name), list) for name in ("no_generation", "no_logs", "generated"))
    return bool(data) and all(isinstance(json_at(entry, "resolved"), bool) for entry in data.values())


@dataclass(frozen=True, slots=True)
class _SweBenchOverview:
    """The names of all logs, and the instances that each submission lists, by the folder of its split."""

    names: frozenset[str]
    listed: Mapping[Path, Sequence[set[str]]]


def _swe_bench_overview(logs: Sequence[LogFile]) -> _SweBenchOverview:
    listed: dict[Path, list[set[str]]] = {}
    for log in logs:
        if isinstance(json_at(log.value(), "resolved"), list):
            listed.setdefault(log.path.resolve().parents[2], []).append(set().union(*_swe_bench_instances(log)))
    return _SweBenchOverview(frozenset(log.path.name for log in logs), listed)


def _swe_bench_entries(log: LogFile, overview: _SweBenchOverview) -> Iterator[LogEntry]:
    data, model, folder = log.value(), model_of_path(log.path), log.path.resolve().parent
    if above := next((above.parent for above in (folder, *folder.parents) if above.name in data), None):
        # The report of one instance is in RUN/MODEL/INSTANCE; that of the run is MODEL.RUN.json.
        folder = above
        model = f"{folder.name}.{folder.parent.name}" if "run_evaluation" in folder.parts else model_of_path(folder)
        if f"{model}.json" in overview.names:
            return
    resolved, failed, wrong = _swe_bench_instances(log)
    if not wrong and isinstance(data.get("resolved"), list):
        # The results of a submission list no other instances: those of its neighbours are what it did not resolve.
        listed = overview.listed[log.path.resolve().parents[2]]
        if len(listed) < 2:
            raise InputError(
                f"{log.path}: lists the resolved instances, and not all others; give the results of several "
                "submissions together, or the report of the harness (MODEL.RUN.json)"
            )
        wrong = set().union(*listed)
    for name in sorted(resolved | failed | wrong):
        yield LogEntry(
            model,
            name,
            {"resolved": name in resolved},
            failed=name in failed - resolved,
            folder=folder,
            groups={"repository": name.rpartition("-")[0].replace("__", "/")},
        )


def _swe_bench_instances(log: LogFile) -> tuple[set[str], set[str], set[str]]:
    """The instances that were resolved, that failed, and all others that the log lists."""

    def listed(*names: str) -> set[str]:
        return {entry for name in names for entry in json_list(data, name) if isinstance(entry, str)}

    data = log.value()
    if any(isinstance(data.get(name), list) for name in ("resolved_ids", "resolved")):
        return listed("resolved_ids", "resolved"), listed(*_FAILED_LISTS), listed(*_WRONG_LISTS)
    resolved = {name for name in data if json_at(data, name, "resolved")}
    return resolved, set(), set(data) - resolved


def is_swe_bench_pro(data: Any) -> bool:
    """Whether a JSON object says of instances of SWE-bench Pro whether they were resolved."""
    return (
        isinstance(data, dict)
        and bool(data)
        and all(_PRO_INSTANCE.fullmatch(name) for name in data)
        and all(value is None or isinstance(value, bool) for value in data.values())
    )


def _swe_bench_pro_entries(log: LogFile, _: None) -> Iterator[LogEntry]:
    for name, value in log.value().items():
        project = name.removeprefix("instance_").partition("-")[0].replace("__", "/")
        yield LogEntry(model_of_path(log.path), name, {"resolved": value}, groups={"repository": project})


def is_terminal_bench(data: Any) -> bool:
    """Whether a JSON object has the trials of a run of terminal-bench, or is one trial."""
    first = json_at(data, "results", 0) or data
    return isinstance(first, dict) and first.keys() >= _TRIAL


def is_terminal_bench_metadata(data: Any) -> bool:
    """Whether a JSON object describes a run of terminal-bench."""
    return isinstance(data, dict) and {"run_id", "agent_name", "model_name"} <= data.keys()


def _log_folders(logs: Sequence[LogFile]) -> frozenset[Path]:
    return frozenset(log.path.resolve().parent for log in logs)


def _terminal_bench_entries(log: LogFile, folders: frozenset[Path]) -> Iterator[LogEntry]:
    data, run = log.value(), log.path.resolve().parent
    trials = json_list(data, "results")
    if "task_id" in data:  # RUN/TASK/TRIAL/results.json; the run's own results have all trials
        run, trials = run.parents[1], [data]
        if run in folders:
            return
    described = read_json(run / "run_metadata.json") if (run / "run_metadata.json").is_file() else {}
    agent, name = (json_at(described, name_key) for name_key in ("agent_name", "model_name"))
    if agent:
        model = _agent_and_model(agent, name)
    else:  # the leaderboard's folders are DATE_AGENT_MODEL/RUN
        model = run.parent.name if _SUBMISSION.fullmatch(run.parent.name) else run.name
    for trial in trials:
        attempt = _ATTEMPT.search(str(json_at(trial, "trial_name")))
        yield LogEntry(
            model,
            str(json_at(trial, "task_id")),
            {"is_resolved": json_at(trial, "is_resolved")},
            # Results of several runs in one folder, DATE_results.json, are distinguished by their names.
            run=(run, attempt[1] if attempt else "", "" if "task_id" in data else log.path.name),
            folder=run.parent,
            question=json_at(trial, "instruction"),
        )


def is_harbor_trial(data: Any) -> bool:
    """Whether a JSON object is the result of a trial of Harbor."""
    return isinstance(data, dict) and {"task_name", "trial_name", "verifier_result"} <= data.keys()


def is_harbor_job(data: Any) -> bool:
    """Whether a JSON object is the result of a job of Harbor, which has no trials."""
    return isinstance(data, dict) and "n_total_trials" in data and isinstance(data.get("stats"), dict)


def _harbor_entries(log: LogFile, _: None) -> Iterator[LogEntry]:
    data = log.value()
    info, configured = json_object(data, "agent_info"), json_object(data, "config", "agent")
    name = json_at(info, "model_info", "name") or configured.get("model_name")
    rewards = json_object(data, "verifier_result", "rewards")
    names = sorted(rewards, key=lambda name: name != "reward")
    source, job = data.get("source"), log.path.resolve().parents[1]
    yield LogEntry(
        _agent_and_model(info.get("name") or configured.get("name") or job.name, name),
        str(data["task_name"]),
        {name: rewards[name] for name in names},
        task=source if isinstance(source, str) else "",
        failed=not rewards,
        folder=job,
    )


def _agent_and_model(agent: Any, model: Any) -> str:
    return f"{agent} with {model}" if model else str(agent)


HARNESSES = (
    entry_harness(  # before SWE-bench: these runs list resolved ids, too
        "terminal-bench results",
        _terminal_bench_entries,
        overview=_log_folders,
        is_log=is_terminal_bench,
        is_aggregate=is_terminal_bench_metadata,
        roles="the model is the agent with its model (run_metadata.json) or the folder, an item is a task, the "
        "score is is_resolved, runs are the folders of runs beside each other and the attempts",
    ),
    entry_harness(
        "Harbor trials",
        _harbor_entries,
        is_log=is_harbor_trial,
        is_aggregate=is_harbor_job,
        roles="the model is the agent with its model, an item is a task, the score is a reward, runs are the "
        "trials of a job; a trial without a reward is a failure",
    ),
    entry_harness(
        "SWE-bench Pro results",
        _swe_bench_pro_entries,
        is_log=is_swe_bench_pro,
        roles="the model is the folder, an item is an instance, the score is whether it was resolved",
    ),
    entry_harness(
        "SWE-bench reports",
        _swe_bench_entries,
        overview=_swe_bench_overview,
        is_log=is_swe_bench_report,
        roles="the model is the name of the report or its folder, an item is an instance, the score is whether "
        "it was resolved; an empty patch or an error is a failure, an instance without a prediction is "
        "missing",
    ),
)
