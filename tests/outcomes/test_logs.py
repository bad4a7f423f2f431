"""Logs of Inspect and HELM, and what all readers have to refuse."""

import contextlib
import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.outcomes.logs import (
    LOGS,
    LOGS_WITH_FAILURES,
    choice_row,
    inspect_log,
    sample,
    write_eval,
    write_helm,
    write_json,
    write_lines,
    write_lm_eval,
    write_terminal_bench,
)
from tests.refusals import read_or_refused

from hardpan import Outcomes
from hardpan.errors import InputError
from hardpan.outcomes.reading import HARNESSES

SAMPLES = [sample(1, "C"), sample(2, "I", answer="B"), sample(3, "P"), sample(4, "N", answer="")]


@pytest.mark.parametrize("harness", [harness.name for harness in HARNESSES])
def test_every_harness_gives_the_scores_that_its_logs_have(tmp_path: Path, harness: str) -> None:
    scores = {"a": [1, 0, 1], "b": [0, 0, 1]}
    for model, values in scores.items():
        LOGS[harness](tmp_path, model, values)
    outcomes = Outcomes.open(tmp_path)
    assert {model: outcomes.scores[row].tolist() for row, model in enumerate(outcomes.models)} == scores
    assert harness in outcomes.notes[0]


@pytest.mark.parametrize("harness", LOGS_WITH_FAILURES)
def test_failures_count_as_wrong_or_missing(tmp_path: Path, harness: str) -> None:
    for model, scores in {"a": [1, None, 0], "b": [0, 1, 1]}.items():
        LOGS[harness](tmp_path, model, scores)
    as_wrong, as_missing = Outcomes.open(tmp_path), Outcomes.open(tmp_path, unparsed="missing")
    assert as_wrong.models == as_missing.models == ("a", "b")
    assert as_wrong.scores.tolist() == [[1, 0, 0], [0, 1, 1]]
    np.testing.assert_array_equal(as_missing.scores, [[1, np.nan, 0], [0, 1, 1]])
    assert any("1 answer " in note for note in as_wrong.notes)


@pytest.mark.parametrize("form", ["json", "deflate", "zstandard"])
def test_inspect_letters(tmp_path: Path, form: str) -> None:
    log = inspect_log("lab/m", SAMPLES)
    path = tmp_path / ("log.json" if form == "json" else "log.eval")
    if form == "json":
        path.write_text(json.dumps(log, indent=1))
    else:
        write_eval(path, log, 93 if form == "zstandard" else 8)
    outcomes = Outcomes.open(path, unparsed="missing")
    np.testing.assert_array_equal(outcomes.scores, [[1, 0, 0.5, np.nan]])
    assert outcomes.models == ("lab/m",)
    assert outcomes.items.tolist() == [f"arc/{i}" for i in range(1, 5)]
    assert outcomes.key is not None
    assert outcomes.answers is not None
    assert outcomes.key.tolist() == ["A"] * 4
    assert outcomes.answers.tolist() == [["A", "B", "A", ""]]
    assert outcomes.groups["subject"].tolist() == ["physics"] * 4
    assert Outcomes.open(path).scores.tolist() == [[1, 0, 0.5, 0]]


def test_inspect_epochs_are_repeats_even_where_they_agree(tmp_path: Path) -> None:
    samples = [
        sample(name, "C" if (name, epoch) != (2, 3) else "I", epoch=epoch) for name in (1, 2) for epoch in (1, 2, 3)
    ]
    outcomes = Outcomes.open(write_eval(tmp_path / "log.eval", inspect_log("m", samples)))
    assert outcomes.scores.tolist() == [[[1, 1, 1], [1, 1, 0]]]


def test_inspect_scorer_is_chosen_and_stated(tmp_path: Path) -> None:
    both = [
        {**sample(1, "C"), "scores": {"choice": {"value": "C"}, "judge": {"value": {"style": 0.25, "truth": True}}}}
    ]
    path = write_eval(tmp_path / "log.eval", inspect_log("m", both))
    assert Outcomes.open(path).scores.tolist() == [[1]]
    assert any("choice" in note for note in Outcomes.open(path).notes)
    assert Outcomes.open(path, scorer="judge").scores.tolist() == [[0.25]]
    assert Outcomes.open(path, scorer="judge", metric="truth").scores.tolist() == [[1]]
    with pytest.raises(InputError, match="scorer"):
        Outcomes.open(path, scorer="other")


def test_inspect_errors_count_as_not_parsed(tmp_path: Path) -> None:
    failed = {"id": 2, "epoch": 1, "target": "A", "error": {"message": "timeout"}}
    outcomes = Outcomes.open(write_eval(tmp_path / "log.eval", inspect_log("m", [sample(1, "C"), failed])))
    assert outcomes.scores.tolist() == [[1, 0]]
    assert any("1 answer " in note for note in outcomes.notes)


def test_inspect_samples_that_failed_count_only_where_no_retry_scored_them(tmp_path: Path) -> None:
    failed = [{"id": number, "epoch": 1, "target": "A", "error": {"message": "timeout"}} for number in (2, 3)]
    write_eval(tmp_path / "first.eval", inspect_log("m", [sample(1, "C"), *failed]))
    write_eval(tmp_path / "retry.eval", inspect_log("m", [sample(1, "C"), sample(2, "C")]))
    outcomes = Outcomes.open(tmp_path)
    assert outcomes.scores.tolist() == [[1, 1, 0]]
    assert np.isnan(Outcomes.open(tmp_path, unparsed="missing").scores[0, 2])


def test_inspect_logs_without_samples_are_stated_beside_others(tmp_path: Path) -> None:
    (tmp_path / "failed.json").write_text(json.dumps(inspect_log("failed", [])))
    with pytest.raises(InputError):
        Outcomes.open(tmp_path)
    write_eval(tmp_path / "log.eval", inspect_log("m", [sample(1, "C")]))
    outcomes = Outcomes.open(tmp_path)
    assert outcomes.models == ("m",)
    assert any("failed.json" in note for note in outcomes.notes)


def test_inspect_logs_of_a_task_share_a_scorer(tmp_path: Path) -> None:
    both = [{**sample(1, "C"), "scores": {"judge": {"value": 0.25}, "choice": {"value": "C"}}}]
    write_eval(tmp_path / "a.eval", inspect_log("a", both))
    unfinished = {**inspect_log("b", both, scorer="lab/choice"), "results": None, "status": "error"}
    (tmp_path / "b.json").write_text(json.dumps(unfinished))
    (tmp_path / "c.json").write_text(json.dumps(inspect_log("c", both, scorer="renamed")))
    outcomes = Outcomes.open(tmp_path)
    assert outcomes.scores.tolist() == [[1], [1], [1]]
    assert any("b.json" in note for note in outcomes.notes)


@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_large_logs_are_parsed_again_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr("hardpan.outcomes.reading.MOST_KEPT", kept)
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(json.dumps(inspect_log(name, SAMPLES), indent=1))
    packed = gzip.compress(json.dumps(inspect_log("c", SAMPLES), indent=1).encode())
    (tmp_path / "c.json.gz").write_bytes(packed)
    outcomes = Outcomes.open(tmp_path)
    assert outcomes.models == ("a", "b", "c")
    assert outcomes.scores.shape == (3, len({row["id"] for row in SAMPLES}))
    np.testing.assert_array_equal(outcomes.scores[2], outcomes.scores[0])


def test_inspect_answers_that_summaries_leave_out_come_from_the_samples(tmp_path: Path) -> None:
    log = inspect_log("m", SAMPLES)
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as stored:
        for row in SAMPLES:
            stored.writestr(f"samples/{row['id']}_epoch_1.json", json.dumps(row))
        thin = [
            {**row, "metadata": {}, "scores": {"choice": {"value": row["scores"]["choice"]["value"]}}}
            for row in SAMPLES
        ]
        stored.writestr("summaries.json", json.dumps(thin))
        stored.writestr("header.json", json.dumps({key: value for key, value in log.items() if key != "samples"}))
    outcomes = Outcomes.open(tmp_path)
    assert outcomes.answers is not None
    assert outcomes.answers.tolist() == [["A", "B", "A", ""]]
    assert outcomes.groups["subject"].tolist() == ["physics"] * 4


def test_helm_runs(tmp_path: Path) -> None:
    write_helm(tmp_path / "mmlu:subject=law,model=a", "lab/a", [1.0, 0.0, 1.0], perturbed=2)
    write_helm(tmp_path / "mmlu:subject=law,model=b", "lab/b", [0.0, 0.0, 1.0])
    outcomes = Outcomes.open(tmp_path)
    assert outcomes.models == ("lab/a", "lab/b")
    assert outcomes.scores.tolist() == [[1, 0, 1], [0, 0, 1]]
    assert outcomes.key is not None
    assert outcomes.key.tolist() == ["B"] * 3
    assert outcomes.answers is not None
    assert outcomes.answers[0].tolist() == ["B", "A", "B"]
    assert outcomes.groups["subject"].tolist() == ["law"] * 3
    with pytest.raises(InputError, match="metric"):
        Outcomes.open(tmp_path, metric="f1")


def test_logs_of_several_harnesses_are_read_together(tmp_path: Path) -> None:
    write_lm_eval(tmp_path / "m", "quiz", [choice_row(0, [-1.0, -2.0], 0)])
    write_eval(tmp_path / "log.eval", inspect_log("n", SAMPLES))
    (tmp_path / "summary.csv").write_text("model,notes\nm,fine\n")
    outcomes = Outcomes.open(tmp_path)
    assert set(outcomes.models) == {"m", "n"}
    assert outcomes.n_items == 5


def write_everything(folder: Path) -> list[Path]:
    write_lm_eval(folder / "lm", "quiz", [choice_row(doc, [-1.0, -2.0, -3.0], doc % 3) for doc in range(3)])
    write_eval(folder / "log.eval", inspect_log("m", SAMPLES))
    write_eval(folder / "zstd.eval", inspect_log("m", SAMPLES), 93)
    (folder / "log.json").write_text(json.dumps(inspect_log("m", SAMPLES)))
    write_helm(folder / "run", "m", [1.0, 0.0])
    LOGS["lighteval details"](folder, "m", [1, 0])
    (folder / "long.csv").write_text(
        "model,item,score\n" + "".join(f"m{i % 3},q{i // 3},{i % 2}\n" for i in range(12))
    )
    np.save(folder / "scores.npy", np.eye(4))
    np.savez_compressed(folder / "scores.npz", scores=np.eye(4), models=np.array(list("abcd")))
    from pyarrow import Table, parquet

    parquet.write_table(
        Table.from_pydict({"model": ["a", "b"], "item": ["x", "x"], "score": [0.5, 1.0]}), folder / "t.parquet"
    )
    return sorted(path for path in folder.rglob("*") if path.is_file())


def check_outcomes(outcomes: Outcomes) -> None:
    """What all outcomes keep, whatever they were read from."""
    assert outcomes.scores.shape[:2] == (len(set(outcomes.models)), len(set(outcomes.items.tolist())))
    measured = outcomes.scores[~np.isnan(outcomes.scores)]
    assert ((measured >= 0) & (measured <= 1)).all()


def test_damaged_files_give_one_sentence_and_nothing_else(tmp_path: Path) -> None:
    """Bytes flipped, cut and inserted: each file is read or refused with InputError, never anything else."""
    rng = np.random.default_rng(11)
    for path in write_everything(tmp_path):
        content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        for trial in range(12):
            damaged = content.copy()
            at = rng.integers(0, len(damaged), size=1 + trial % 4)
            damaged[at] = rng.integers(0, 256, size=len(at))
            if trial % 3 == 0:
                damaged = damaged[: rng.integers(0, len(damaged))]
            path.write_bytes(damaged.tobytes())
            with read_or_refused():
                check_outcomes(Outcomes.open(path))
        path.write_bytes(content.tobytes())


JUNK = (None, True, -1, 1e308, "", "x", [], {}, [[]], {"a": 1}, 10**30, ["a", 1], -0.5)


def with_wrong_types(data: Any, rng: np.random.Generator) -> Any:
    """The same JSON with some values of another type, or left out."""
    root = [data]
    places: list[tuple[Any, Any]] = [(root, 0)]
    for holder, key in places:
        value = holder[key]
        places += (
            [(value, part) for part in (value if isinstance(value, dict) else range(len(value)))]
            if isinstance(value, (dict, list))
            else []
        )
    for place in rng.integers(0, len(places), size=2):
        holder, key = places[place]
        with contextlib.suppress(KeyError, IndexError):
            if isinstance(holder, dict) and rng.random() < 0.3:
                del holder[key]
            else:
                holder[key] = JUNK[rng.integers(len(JUNK))]
    return root[0]


def test_wrong_types_in_valid_json_are_read_or_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    write_helm(tmp_path / "run", "m", [1.0, 0.0])
    results = {"results": {"quiz": {"acc,none": 1.0}}, "n-samples": {"quiz": {"effective": 1}}, "model_name": "m"}
    write_lm_eval(tmp_path / "lm", "quiz", [choice_row(0, [-1.0, -2.0], 0)], results)
    (tmp_path / "log.json").write_text(json.dumps(inspect_log("m", SAMPLES)))
    for harness, write in LOGS_WITH_FAILURES.items():
        write(tmp_path / harness, "m", [1])
    for path in sorted(tmp_path.rglob("*.json*")):
        content = path.read_text()
        source = path.parent if path.parent != tmp_path else path
        for _ in range(40):
            path.write_text(json.dumps(with_wrong_types(json.loads(content), rng)) + "\n")
            with read_or_refused():
                check_outcomes(Outcomes.open(source))
        path.write_text(content)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("header.csv", b"model,item,score\n"),
        ("deep.json", nested(200_000).encode()),
        ("deep.jsonl", b'{"doc_id": ' + nested(200_000).encode() + b"}\n"),
        ("number.json", b"3"),
        ("text.json", b'"scores"'),
        ("list.json", b"[1, 2, 3]"),
        ("other.json", b'{"a": {"b": {"c": 1}}}'),
        ("latin.csv", "mödel,item\n".encode("latin-1")),
        ("ragged.csv", b"model,item,score\na,b\n"),
        ("binary.dat", bytes(range(256))),
        ("zip.zip", b"PK\x03\x04" + bytes(100)),
        ("cut.npy", b"\x93NUMPY\x01\x00"),
        ("wrong.jsonl", b'{"doc_id": 1, "doc": 5, "resps": 7, "filtered_resps": 9}\n'),
        ("wrong2.jsonl", b'{"doc_id": {}, "doc": {}, "filtered_resps": [[1, 2], 3], "acc": "x"}\n'),
        ("instance.jsonl", b'{"sample_id": [], "evaluation": {"score": {}}}\n{"sample_id": 1}\n'),
        ("inspect.json", b'{"eval": {"model": 5}, "samples": [5]}'),
        ("inspect2.json", b'{"eval": {"model": "m"}, "samples": {"id": 1}}'),
    ],
)
def test_files_that_are_no_scores_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError):
        Outcomes.open(path)


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: folder / "nothing.csv",
        lambda folder: folder,
        lambda folder: "x" * 5_000,
        lambda folder: 5,
        lambda folder: None,
        lambda folder: [],
        lambda folder: object(),
    ],
)
def test_what_is_no_source_is_refused(tmp_path: Path, make: Callable[[Path], object]) -> None:
    with pytest.raises(InputError):
        Outcomes.open(make(tmp_path))


def test_submissions_to_swe_bench_list_what_was_not_resolved_only_together(tmp_path: Path) -> None:
    for model, resolved in {"a": ["x-1", "x-2"], "b": ["x-2", "x-3"]}.items():
        results = {"no_generation": ["x-4"], "no_logs": [], "resolved": resolved}
        write_json(tmp_path / "verified" / model / "results" / "results.json", results)
    outcomes = Outcomes.open(tmp_path)
    assert (outcomes.models, outcomes.items.tolist()) == (("a", "b"), ["x-1", "x-2", "x-3", "x-4"])
    assert outcomes.scores.tolist() == [[1, 1, 0, 0], [0, 1, 1, 0]]
    with pytest.raises(InputError):
        Outcomes.open(tmp_path / "verified" / "a")


def test_reports_of_swe_bench_instances_count_once(tmp_path: Path) -> None:
    for number, resolved in enumerate([True, False]):
        name = f"django__django-{10 + number}"
        report = {name: {"patch_successfully_applied": True, "resolved": resolved, "tests_status": {}}}
        write_json(tmp_path / "run_evaluation" / "run" / "model" / name / "report.json", report)
    outcomes = Outcomes.open(tmp_path)
    assert (outcomes.models, outcomes.scores.tolist()) == (("model.run",), [[1, 0]])
    LOGS["SWE-bench reports"](tmp_path, "model.run", [1, 0])
    assert Outcomes.open(tmp_path).scores.tolist() == [[1, 0]]


def test_runs_of_terminal_bench_are_repeats(tmp_path: Path) -> None:
    write_terminal_bench(tmp_path, "agent", [1, 0], run="first")
    path = write_terminal_bench(tmp_path, "agent", [1, None], run="second")
    assert Outcomes.open(tmp_path, unparsed="missing").item_scores().tolist() == [[1, 0]]
    path.unlink()  # a run that was interrupted has the results of its trials only
    assert Outcomes.open(tmp_path).scores.tolist() == [[[1, 1], [0, 0]]]


def test_metrics_of_entries_are_chosen_and_stated(tmp_path: Path) -> None:
    path = LOGS["promptfoo outputs"](tmp_path, "m", [1, 0])
    assert any("success" in note and "style" in note for note in Outcomes.open(path).notes)
    assert Outcomes.open(path, metric="score").scores.tolist() == [[0.75, 0.25]]
    assert Outcomes.open(path, metric="style").scores.tolist() == [[0.5, 0.5]]
    with pytest.raises(InputError) as error:
        Outcomes.open(path, metric="other")
    assert error.value.argument == "metric"


def test_models_of_a_task_are_read_by_one_metric(tmp_path: Path) -> None:
    row = {"prompt": {"raw": "?"}, "success": True, "failureReason": 0}
    rows = [{**row, "provider": "a", "vars": {"n": 1}, "score": 0.5, "namedScores": {"style": 0.25}}]
    rows += [{**row, "provider": "b", "vars": {"n": n}, "score": 1, "namedScores": {"style": 0.75}} for n in (1, 2)]
    del rows[2]["namedScores"]
    path = write_json(tmp_path / "output.json", {"version": 3, "results": rows})
    outcomes = Outcomes.open(path, metric="style")
    assert (outcomes.models, outcomes.scores.tolist()) == (("a", "b"), [[0.25], [0.75]])
    assert any("1 entry" in note for note in outcomes.notes)


def test_judge_scores_are_divided_by_the_highest(tmp_path: Path) -> None:
    row = {"question_id": 81, "model": "m", "judge": ["judge", "single"], "score": 4, "turn": 1}
    path = write_lines(tmp_path / "m.jsonl", [row])
    assert Outcomes.open(path).scores.tolist() == [[0.4]]
    assert Outcomes.open(path, max_score=5).scores.tolist() == [[0.8]]


def test_tasks_of_mteb_with_scores_outside_0_to_1_are_left_out_for_all_models(tmp_path: Path) -> None:
    for model, value in {"a": -0.1, "b": 0.2}.items():
        LOGS["MTEB results"](tmp_path, model, [1])
        rows = [{"main_score": value, "hf_subset": "default"}]
        data = {"task_name": "Below", "mteb_version": "2.0.0", "scores": {"test": rows}}
        write_json(tmp_path / model / "revision" / "Below.json", data)
    outcomes = Outcomes.open(tmp_path)
    assert (outcomes.items.tolist(), outcomes.scores.tolist()) == (["Task0/test"], [[1], [1]])
    assert any("Below" in note for note in outcomes.notes)


def test_runs_of_terminal_bench_in_one_folder_are_told_apart(tmp_path: Path) -> None:
    solved = np.random.default_rng(0).random((3, 6)) < 0.5
    for run, values in enumerate(solved):
        trials = [
            {"task_id": f"t{k}", "trial_name": f"t{k}.1-of-1", "is_resolved": bool(value)}
            for k, value in enumerate(values)
        ]
        write_json(tmp_path / "agent" / f"2026-01-0{run + 1}_results.json", {"results": trials})
    np.testing.assert_array_equal(Outcomes.open(tmp_path).scores[0], solved.T)


def test_score_files_of_several_versions_of_bfcl_are_refused(tmp_path: Path) -> None:
    LOGS["BFCL scores"](tmp_path, "a", [1, 0, 1])
    LOGS["BFCL scores"](tmp_path, "b", [1, 0, 1, 1])
    with pytest.raises(InputError):
        Outcomes.open(tmp_path)
