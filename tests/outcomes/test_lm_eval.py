"""Logs of lm-evaluation-harness: what was planted comes back, joined by document."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from tests.outcomes.logs import DATE, choice_row, text_rows, write_lines, write_lm_eval

from hardpan import Outcomes
from hardpan.errors import InputError

RNG = np.random.default_rng(5)
LOGPROBS = RNG.normal(-20.0, 5.0, size=(3, 12, 4))
RIGHT = RNG.integers(0, 4, size=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models on twelve documents of one task, each file in another order, and one model without a hash."""
    root = tmp_path_factory.mktemp("logs")
    for model in range(3):
        rows = [
            choice_row(doc, LOGPROBS[model, doc].tolist(), int(RIGHT[doc]), hashed=model != 2) for doc in range(12)
        ]
        order = np.random.default_rng(model).permutation(12)
        write_lm_eval(root / f"org__model-{model}", "quiz", [rows[index] for index in order])
    return root


def sorted_by_document(outcomes: Outcomes) -> Outcomes:
    return outcomes.select(items=np.argsort(outcomes.groups["doc_id"].astype(int)))


def test_scores_are_joined_by_document(folder: Path) -> None:
    outcomes = sorted_by_document(Outcomes.open(folder))
    assert outcomes.models == ("org/model-0", "org/model-1", "org/model-2")
    np.testing.assert_array_equal(outcomes.scores, LOGPROBS.argmax(axis=2) == RIGHT)
    assert outcomes.items.tolist() == [f"quiz/{doc}" for doc in range(12)]
    assert outcomes.groups["subject"].tolist() == ["even", "odd"] * 6
    assert outcomes.questions == tuple(f"question {doc}" for doc in range(12))
    assert any("acc" in note for note in outcomes.notes)


def test_the_metric_can_be_chosen(folder: Path) -> None:
    outcomes = sorted_by_document(Outcomes.open(folder, metric="acc_norm"))
    lengths = np.array([len("long " * index + f"choice {index}") for index in range(4)])
    np.testing.assert_array_equal(outcomes.scores, (LOGPROBS / lengths).argmax(axis=2) == RIGHT)
    with pytest.raises(InputError, match="metric"):
        Outcomes.open(folder, metric="f1")


def test_choices_answers_and_key_are_kept(folder: Path) -> None:
    outcomes = sorted_by_document(Outcomes.open(folder))
    assert outcomes.choices is not None
    assert outcomes.answers is not None
    assert outcomes.key is not None
    weights = np.exp(LOGPROBS - LOGPROBS.max(axis=2, keepdims=True))
    np.testing.assert_allclose(
        outcomes.choices.probabilities(), weights / weights.sum(axis=2, keepdims=True), rtol=1e-5
    )
    np.testing.assert_array_equal(outcomes.choices.right, RIGHT)
    np.testing.assert_array_equal(outcomes.answers == outcomes.key, outcomes.scores == 1)


@pytest.mark.parametrize("target", ["text", "number", "letter", "missing"])
def test_the_right_choice_is_read_from_any_target(tmp_path: Path, target: str) -> None:
    for model in range(2):
        rows = []
        for doc in range(12):
            row = choice_row(doc, LOGPROBS[model, doc, :2].tolist(), int(RIGHT[doc] % 2))
            given = {"text": f"{'long ' * (RIGHT[doc] % 2)}choice {RIGHT[doc] % 2}", "number": str(RIGHT[doc] % 2)}
            row["target"] = given.get(target, "AB"[RIGHT[doc] % 2] if target == "letter" else None)
            rows.append(row)
        write_lm_eval(tmp_path / f"m{model}", "quiz", rows)
    outcomes = Outcomes.open(tmp_path)
    assert outcomes.choices is not None
    np.testing.assert_array_equal(outcomes.choices.right, RIGHT % 2)


def test_equal_choice_texts_are_told_apart_by_number(tmp_path: Path) -> None:
    row = choice_row(0, [-1.0, -2.0], 0)
    for part in row["arguments"].values():
        part["arg_1"] = " was late."
    row["target"] = "was late."
    outcomes = Outcomes.open(write_lm_eval(tmp_path / "m", "wino", [row]))
    assert outcomes.answers is not None
    assert outcomes.key is not None
    assert outcomes.answers.tolist() == [["0"]]
    assert outcomes.key.tolist() == ["0"]


def test_one_filter_is_read(tmp_path: Path) -> None:
    rows = [
        row for doc in range(4) for row in text_rows(doc, "so 3", "3", {"strict": "[invalid]", "flexible": "3"})
    ]
    rows.sort(key=lambda row: row["filter"], reverse=True)
    path = write_lm_eval(tmp_path / "m", "gsm", rows)
    write_lm_eval(tmp_path / "m", "arc", [choice_row(0, [-1.0, -2.0], 0)])
    assert Outcomes.open(path).scores.tolist() == [[0, 0, 0, 0]]
    assert Outcomes.open(path, filter="flexible").scores.tolist() == [[1, 1, 1, 1]]
    assert Outcomes.open(tmp_path, filter="flexible").scores.sum() == 5
    with pytest.raises(InputError, match="filter"):
        Outcomes.open(path, filter="none")


def test_answers_that_were_not_parsed(tmp_path: Path) -> None:
    rows = text_rows(0, "so 3", "3", {"none": "3"}) + text_rows(1, "what?", "3", {"none": "[invalid]"})
    rows += [{**text_rows(2, "x", "3", {"none": "x"})[0], "exact_match": None}]
    path = write_lm_eval(tmp_path / "m", "gsm", rows)
    assert Outcomes.open(path).scores.tolist() == [[1, 0, 0]]
    missing = Outcomes.open(path, unparsed="missing").scores
    np.testing.assert_array_equal(np.isnan(missing), [[False, True, True]])
    assert any("2 answers" in note for note in Outcomes.open(path).notes)
    with pytest.raises(InputError, match="unparsed"):
        Outcomes.open(path, unparsed="skip")


def test_a_document_that_a_task_repeats_stays_two_items(tmp_path: Path) -> None:
    for model, second in (("a", [-2.0, -1.0]), ("b", [-1.0, -2.0])):
        rows = [choice_row(0, [-1.0, -2.0], 0, text="same"), choice_row(1, second, 0, text="same")]
        write_lm_eval(tmp_path / model, "quiz", rows)
    outcomes = Outcomes.open(tmp_path)
    assert outcomes.scores.tolist() == [[1, 0], [1, 1]]
    assert len(set(outcomes.items)) == 2


def test_equal_rows_are_dropped_and_other_scores_are_repeats(tmp_path: Path) -> None:
    right, wrong = choice_row(0, [-1.0, -2.0], 0), choice_row(0, [-2.0, -1.0], 0)
    same = Outcomes.open(write_lm_eval(tmp_path / "same", "quiz", [right, right]))
    assert same.scores.tolist() == [[1]]
    assert any("1 duplicate" in note for note in same.notes)
    other = Outcomes.open(write_lm_eval(tmp_path / "other", "quiz", [right, wrong]))
    assert other.scores.tolist() == [[[1, 0]]]
    assert any("repeats" in note for note in other.notes)


def test_sums_are_compared_with_the_results_beside_the_log(tmp_path: Path) -> None:
    rows = [choice_row(doc, [-1.0, -2.0], doc % 2) for doc in range(4)]
    results = {"model_name": "lab/m", "n-samples": {"quiz": {"effective": 4}}}
    right = write_lm_eval(tmp_path / "a", "quiz", rows, {**results, "results": {"quiz": {"acc,none": 0.5}}})
    wrong = write_lm_eval(tmp_path / "b", "quiz", rows, {**results, "results": {"quiz": {"acc,none": 0.75}}})
    short = write_lm_eval(tmp_path / "c", "quiz", rows[:3], {**results, "results": {"quiz": {"acc,none": 0.5}}})
    assert any("agree" in note for note in Outcomes.open(right).notes)
    assert any("0.75" in note for note in Outcomes.open(wrong).notes)
    assert any("3 of 4" in note for note in Outcomes.open(short).notes)
    assert Outcomes.open(right).models == ("lab/m",)


def test_old_logs_are_lists_in_one_json(tmp_path: Path) -> None:
    import json

    rows = [choice_row(doc, [-1.0, -2.0], doc % 2, hashed=False) for doc in range(4)]
    path = tmp_path / "old.jsonl"
    path.write_text(json.dumps(rows, indent=2))
    outcomes = Outcomes.open(path)
    assert outcomes.models == ("old",)
    assert outcomes.scores.tolist() == [[1, 0, 1, 0]]


def test_a_metric_above_one_is_refused_or_divided(tmp_path: Path) -> None:
    rows = [{**choice_row(doc, [-1.0, -2.0], 0), "metrics": ["judge"], "judge": 2.0 + doc} for doc in range(3)]
    path = write_lm_eval(tmp_path / "m", "quiz", rows)
    with pytest.raises(InputError, match="metric"):
        Outcomes.open(path)
    with pytest.raises(InputError, match="max_score"):
        Outcomes.open(path, metric="judge")
    assert Outcomes.open(path, metric="judge", max_score=10).scores.tolist() == [[0.2, 0.3, 0.4]]


def test_the_prompt_is_the_question_of_a_document_without_one(tmp_path: Path) -> None:
    rows = [{**choice_row(doc, [-1.0, -2.0], 0), "doc": {"tags": ["a", 1]}} for doc in range(2)]
    outcomes = Outcomes.open(write_lm_eval(tmp_path / "m", "quiz", rows), group="tags")
    assert outcomes.questions == ("question 0", "question 1")
    assert outcomes.groups["tags"].tolist() == ["a, 1"] * 2


def test_group_columns_can_be_asked_for(folder: Path) -> None:
    assert set(Outcomes.open(folder, group="question").groups) >= {"task", "question", "subject"}
    with pytest.raises(InputError, match="group"):
        Outcomes.open(folder, group="author")


def test_progress_reaches_the_end(folder: Path) -> None:
    steps: list[float] = []
    Outcomes.open(folder, progress=lambda step, fraction: steps.append(fraction))
    assert steps == sorted(steps)
    assert steps[-1] == pytest.approx(1.0)


def test_broken_lines_are_refused_with_their_number(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "m" / "samples_quiz.jsonl", [choice_row(0, [-1.0, -2.0], 0)] * 2)
    text = path.read_text()
    path.write_text(text[:-20])
    with pytest.raises(InputError, match=r"\.jsonl\D+2\b"):
        Outcomes.open(path)
    path.write_text(text + "[" * 100_000 + "\n")
    with pytest.raises(InputError, match=r"\.jsonl\D+3\b"):
        Outcomes.open(path)
    path.write_text(text + '{"other": 1}\n')
    with pytest.raises(InputError, match=r"\.jsonl\D+3\b"):
        Outcomes.open(path)


def test_results_of_two_models_in_one_folder_are_told_apart_by_date(tmp_path: Path) -> None:
    dates = {"org/x": "2025-01-01T00-00-00.000001", "org/y": "2025-01-02T00-00-00.000001"}
    for index, (model, date) in enumerate(dates.items()):
        rows = [choice_row(doc, LOGPROBS[index, doc].tolist(), int(RIGHT[doc])) for doc in range(12)]
        write_lines(tmp_path / f"samples_quiz_{date}.jsonl", rows)
        results = {
            "configs": {},
            "model_name": model,
            "results": {"quiz": {"acc,none": np.mean([r["acc"] for r in rows])}},
        }
        (tmp_path / f"{model[-1]}_{date}.json").write_text(json.dumps(results))
    outcomes = Outcomes.open(tmp_path)
    assert outcomes.models == tuple(dates)
    np.testing.assert_array_equal(outcomes.scores, LOGPROBS[:2].argmax(axis=2) == RIGHT)
    assert any("2 task runs agree" in note for note in outcomes.notes)


def test_first_versions_name_the_task_only_in_the_results(tmp_path: Path) -> None:
    for task in ("arc", "quiz_arc"):
        rows = [choice_row(doc, LOGPROBS[0, doc].tolist(), int(RIGHT[doc]), hashed=False) for doc in range(12)]
        (tmp_path / f"pretrained__org__m_{task}.jsonl").write_text(json.dumps(rows, indent=2))
    results = {"results": {"arc": {}, "quiz_arc": {}}, "configs": {}, "config": {"model_args": "pretrained=org/m"}}
    (tmp_path / "results.json").write_text(json.dumps(results))
    outcomes = Outcomes.open(tmp_path)
    assert outcomes.models == ("org/m",)
    assert outcomes.n_items == 24
    assert set(outcomes.groups["task"]) == {"arc", "quiz_arc"}


def test_models_of_a_task_share_its_filter_whatever_the_order_of_their_lines(tmp_path: Path) -> None:
    filters = {"a": ("strict", "loose"), "b": ("loose", "strict"), "c": ("loose",)}
    for model, names in filters.items():
        rows = [row for name in names for row in text_rows(0, "", "3", {name: "3" if name == "loose" else "4"})]
        write_lm_eval(tmp_path / model, "sums", rows)
    outcomes = Outcomes.open(tmp_path)
    assert outcomes.scores.ravel().tolist() == [0, 0, 1]
    assert any("sums by exact_match, loose" in note for note in outcomes.notes)


def test_a_metric_is_for_the_tasks_that_have_a_choice(tmp_path: Path) -> None:
    write_lm_eval(tmp_path / "m", "quiz", [choice_row(0, [-1.0, -2.0], 0)])
    write_lm_eval(tmp_path / "m", "sums", text_rows(0, "3", "3", {"none": "3"}))
    note = next(note for note in Outcomes.open(tmp_path, metric="acc_norm").notes if "Metric" in note)
    assert "acc_norm (quiz)" in note
    assert "exact_match (sums)" in note
    for name in ("metric", "filter"):
        with pytest.raises(InputError, match=name):
            Outcomes.open(tmp_path / "m" / f"samples_sums_{DATE}.jsonl", **{name: "other"})


def test_a_first_answer_without_a_score_is_not_parsed(tmp_path: Path) -> None:
    rows = [
        {**choice_row(doc, [-1.0, -2.0], 0), "metrics": ["acc"], "acc": value}
        for doc, value in enumerate((None, 1.0))
    ]
    assert Outcomes.open(write_lm_eval(tmp_path, "quiz", rows)).scores.tolist() == [[0, 1]]


def _scored(doc, **metrics):
    return {"doc_id": doc, "doc": {}, "target": "x", "filtered_resps": ["y"], "metrics": list(metrics), **metrics}


def test_metrics_of_several_instructions_count_by_their_mean(tmp_path):
    rows = [_scored(doc, prompt_acc=doc > 0, inst_acc=[True, doc > 0, False, False]) for doc in range(4)]
    write_lm_eval(tmp_path / "m", "ifeval", rows)
    assert Outcomes.open(tmp_path).scores.mean() == 0.75
    assert Outcomes.open(tmp_path, metric="inst_acc").scores.tolist() == [[0.25, 0.5, 0.5, 0.5]]


def test_percentages_are_divided_by_max_score(tmp_path):
    write_lm_eval(tmp_path / "m", "squad", [_scored(doc, f1=20.0 * doc) for doc in range(1, 5)])
    with pytest.raises(InputError, match="max_score"):
        Outcomes.open(tmp_path)
    assert Outcomes.open(tmp_path, max_score=100).scores.tolist() == [[0.2, 0.4, 0.6, 0.8]]


def test_tasks_without_scores_are_skipped_beside_others(tmp_path):
    write_lm_eval(tmp_path / "n", "wikitext", [_scored(0, word_perplexity=[-12.3, 5])])
    with pytest.raises(InputError, match="word_perplexity"):
        Outcomes.open(tmp_path)
    write_lm_eval(tmp_path / "m", "quiz", [_scored(doc, acc=1.0) for doc in range(3)])
    outcomes = Outcomes.open(tmp_path)
    assert (outcomes.models, outcomes.n_items) == (("m",), 3)
    assert any("word_perplexity" in note for note in outcomes.notes)
    with pytest.raises(InputError, match="word_perplexity"):
        Outcomes.open(tmp_path / "n", metric="word_perplexity")


def test_gzipped_logs_are_read_by_content(folder: Path, tmp_path: Path) -> None:
    plain = Outcomes.open(folder)
    for path in folder.rglob("*.jsonl"):
        target = tmp_path / path.parent.name / f"{path.name}.gz"
        target.parent.mkdir()
        target.write_bytes(gzip.compress(path.read_bytes()))
        accuracy = plain.scores[plain.models.index(path.parent.name.replace("__", "/"))].mean()
        results = json.dumps({"configs": {}, "results": {"quiz": {"acc,none": accuracy}}})
        (target.parent / f"results_{DATE}.json.gz").write_bytes(gzip.compress(results.encode()))
    fractions: list[float] = []
    packed = Outcomes.open(tmp_path, progress=lambda _, fraction: fractions.append(fraction))
    assert packed.models == plain.models
    assert packed.items.tolist() == plain.items.tolist()
    np.testing.assert_array_equal(packed.scores, plain.scores)
    assert any("means of 3 task runs agree" in note for note in packed.notes)
    assert fractions == sorted(fractions)
    unnamed = tmp_path / "samples_quiz.jsonl"  # gzip without its ending
    unnamed.write_bytes(next(tmp_path.rglob("*.jsonl.gz")).read_bytes())
    assert Outcomes.open(unnamed).n_items == 12


@pytest.mark.parametrize("content", ["cut", "one line", "many lines"])
def test_gzip_that_is_cut_or_a_bomb_is_refused(tmp_path: Path, content: str) -> None:
    row = json.dumps({"doc_id": 0, "filtered_resps": ["a"], "acc": 1.0}).encode() + b"\n"
    path = tmp_path / "samples_quiz.jsonl.gz"
    if content == "cut":
        whole = b"".join(row.replace(b"0", str(doc).encode()) for doc in range(2000))
        path.write_bytes(gzip.compress(whole)[:-100])
    else:
        filler = {"one line": b"a" * 20_000_000, "many lines": (b" " * 999 + b"\n") * 20_000}[content]
        path.write_bytes(gzip.compress(row + filler))
    with pytest.raises(InputError, match="samples_quiz"):
        Outcomes.open(path)


def test_an_empty_log_beside_others_is_stated(tmp_path: Path) -> None:
    write_lm_eval(tmp_path / "a", "quiz", [choice_row(doc, [0.0, -1.0], 0) for doc in range(3)])
    write_lm_eval(tmp_path / "crashed", "quiz", [])
    outcomes = Outcomes.open(tmp_path)
    assert outcomes.models == ("a",)
    assert any("crashed" in note for note in outcomes.notes)


def test_runs_of_one_model_in_several_folders_are_told_apart(tmp_path: Path) -> None:
    """One folder: repeats. Several folders or adapters: several models, found by the name of the folder."""
    for folder, score in (("main", 1.0), ("candidate", 0.0)):
        rows = [_scored(doc, acc=score) for doc in range(3)]
        write_lm_eval(tmp_path / "logs" / folder / ".__ckpt", "quiz", rows)  # as the harness names ./ckpt
    outcomes = Outcomes.open(tmp_path / "logs")
    assert outcomes.models == ("./ckpt (candidate)", "./ckpt (main)")
    assert outcomes.scores[[outcomes.index("main"), outcomes.index("candidate")]].mean(axis=1).tolist() == [1, 0]
    write_lm_eval(tmp_path / "tasks" / "a" / "ckpt", "quiz", [_scored(doc, acc=1.0) for doc in range(3)])
    write_lm_eval(tmp_path / "tasks" / "b" / "ckpt", "sums", [_scored(doc, acc=0.0) for doc in range(3)])
    outcomes = Outcomes.open(tmp_path / "tasks")
    assert (outcomes.models, outcomes.scores.mean()) == (("ckpt",), 0.5)
    for date, adapter in (("2025-01-01T00-00-00", ""), ("2025-01-02T00-00-00", ",peft=org/lora")):
        path = write_lm_eval(tmp_path / "peft", "quiz", [_scored(doc, acc=float(not adapter)) for doc in range(3)])
        path.rename(path.with_name(f"samples_quiz_{date}.jsonl"))
        results = {"results": {"quiz": {}}, "configs": {}, "config": {"model_args": f"pretrained=base{adapter}"}}
        (tmp_path / "peft" / f"results_{date}.json").write_text(json.dumps(results))
    assert Outcomes.open(tmp_path / "peft").models == ("base", "base (peft=org/lora)")


def test_scores_as_the_text_of_booleans_are_read(tmp_path: Path) -> None:
    """The harness writes NumPy's booleans as text."""
    path = write_lm_eval(tmp_path / "m", "quiz", [_scored(doc, exact_match=str(doc < 3)) for doc in range(4)])
    assert Outcomes.open(path).scores.tolist() == [[1, 1, 1, 0]]


def test_documents_that_changed_between_logs_are_other_items_and_stated(tmp_path: Path) -> None:
    for version in ("old", "new"):
        rows = [choice_row(doc, [-1.0, -2.0], 0, text=f"{version if doc else 'same'} {doc}") for doc in range(3)]
        write_lm_eval(tmp_path / version, "quiz", rows)
    outcomes = Outcomes.open(tmp_path)
    assert (outcomes.n_items, int(np.isfinite(outcomes.scores).all(axis=0).sum())) == (5, 1)
    assert any("quiz (2 documents)" in note for note in outcomes.notes)
