"""Answers without a score: counted by model, treated by one choice, with what the other choice would change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardpan import Outcomes, files, leaderboard
from hardpan.pages.leaderboard.models import failed_answer_lines


def board(failures: int) -> list[dict[str, Any]]:
    """Two agents on 20 tasks: one has 11 right, the other 10 and some without a score."""
    right: dict[str, list[bool | None]] = {
        "steady": [k >= 9 for k in range(20)],
        "fragile": [None if k >= 20 - failures else k < 10 for k in range(20)],
    }
    return [
        {"agent": agent, "task_id": f"t{k}", "resolved": value}
        for agent, values in right.items()
        for k, value in enumerate(values)
    ]


@pytest.mark.parametrize(("failures", "changes"), [(0, False), (1, False), (6, True)])
def test_failures_are_counted_and_the_order_is_compared(failures: int, changes: bool) -> None:
    result = leaderboard.rank(Outcomes.open(board(failures)))
    assert result.models == ("steady", "fragile")
    np.testing.assert_allclose(result.score, [11 / 20, 10 / 20])
    lines = failed_answer_lines(result)
    assert len(lines) == (failures > 0) + changes
    if failures:
        assert result.failures is not None
        assert (result.failures.tolist(), result.failed_as) == ([0, failures], "wrong")
    summary = leaderboard.summarize(Outcomes.open(board(failures))).view()
    kinds = [problem.kind for problem in summary.problems]
    assert ("failures" in kinds, "failures-order" in kinds) == (failures > 0, changes)


def test_the_other_treatment_has_the_scores_of_the_other_option() -> None:
    wrong = leaderboard.rank(Outcomes.open(board(6)))
    missing = leaderboard.rank(Outcomes.open(board(6), unparsed="missing"))
    assert missing.models == ("fragile", "steady")
    for result, other in ((wrong, missing), (missing, wrong)):
        assert result.other_score is not None
        scores = dict(zip(other.models, other.score, strict=True))
        np.testing.assert_allclose(result.other_score, [scores[name] for name in result.models])
    assert missing.items.tolist() == [14, 20]


def test_failures_are_saved_and_selected(tmp_path: Path) -> None:
    outcomes = Outcomes.open(board(6))
    assert outcomes.select(models=["fragile"], items=outcomes.items[-8:]).failed.sum() == 6  # type: ignore[union-attr]
    result = leaderboard.rank(outcomes)
    result.save(tmp_path / "board")
    saved = json.loads((tmp_path / "board" / "report.json").read_text())
    again = files.from_json(saved, tmp_path / "board")
    assert again.failures.tolist() == [0, 6]
    assert "failures" in result.to_frame("pandas").columns
