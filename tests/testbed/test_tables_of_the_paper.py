"""Table 3, and comparisons of pairs, on planted data and on the paper's own numbers."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest
from tests.testbed.helpers import simulate_counts

from hardpan import stats, testbed
from hardpan.errors import InputError

PEOPLE = [  # Table 3: percent right on 500 original and (by its intervals) 100 new images
    *(
        (85, (81.6, 88.0), 83, (74.2, 89.8)),
        (83, (79.4, 86.2), 81, (71.9, 88.2)),
        (82, (78.3, 85.3), 78, (68.6, 85.7)),
    ),
    *(
        (79, (75.2, 82.5), 84, (75.3, 90.6)),
        (76, (72.0, 79.7), 77, (67.5, 84.8)),
        (75, (71.0, 78.7), 73, (63.2, 81.4)),
    ),
    *(
        (74, (69.9, 77.8), 79, (69.7, 86.5)),
        (74, (69.9, 77.8), 76, (66.4, 84.0)),
        (67, (62.7, 71.1), 71, (61.1, 79.6)),
    ),
]


def people_rows() -> list[dict[str, object]]:
    rows = []
    for number, (original, _, new, _) in enumerate(PEOPLE, start=1):
        rows.append({"participant": number, "set": "original", "correct": original * 5, "total": 500})
        rows.append({"participant": number, "set": "new", "correct": new, "total": 100})
    return rows


def test_people_as_in_table_three() -> None:
    result = testbed.human_table(people_rows())
    for row in result.rows:
        original, low_high, new, new_low_high = PEOPLE[int(row.name) - 1]
        shown = [
            round(100 * value, 1) for value in (row.original.low, row.original.high, row.new.low, row.new.high)
        ]
        assert shown == [*low_high, *new_low_high]
        assert round(100 * row.gap) == original - new
    assert result.mean_gap.value == pytest.approx(-0.008, abs=0.0005)
    assert (result.better_on_original, result.better_on_new) == (4, 5)


def test_single_responses_count_up(tmp_path: Path) -> None:
    rows = [
        {"participant": "p", "set": side, "response": said, "label": "cat"}
        for side, said in [("original", "cat")] * 3 + [("original", "dog")] + [("new", "cat"), ("new", "dog")]
    ]
    path = tmp_path / "p.json"
    path.write_text(json.dumps(rows))
    row = testbed.human_table([path]).rows[0]
    assert (row.original.value, row.original.n, row.new.value, row.new.n) == (0.75, 4, 0.5, 2)


def test_people_are_refused_in_a_sentence() -> None:
    rows = people_rows()
    bad = [rows[:-1], [{"participant": 1, "set": "old", "correct": 1}], [{"participant": 1, "set": "new"}]]
    bad.append([{"participant": 1, "set": side, "correct": 2} for side in ("original", "new")])
    for responses in bad:
        with pytest.raises(InputError) as caught:
            testbed.human_table(responses)
        assert caught.value.argument == "responses"
    with pytest.raises(InputError, match="participant"):
        testbed.human_table([{"set": "new", "correct": 1}])


def test_hardest_includes_ties() -> None:
    right = np.ones((4, 100), dtype=bool)
    right[:, :3] = False
    right[:2, 3:9] = False
    assert testbed.hardest(right, 0.03).tolist() == [0, 1, 2]
    assert testbed.hardest(right, 0.05).tolist() == list(range(9))
    assert len(testbed.hardest(right, 0.10)) == 100
    with pytest.raises(InputError, match="fraction"):
        testbed.hardest(right, 0)


def test_people_on_the_hardest_examples_only() -> None:
    outcomes = testbed.simulate([0.0, 1.0, 2.0], examples=(100, 60), seed=3)
    only = testbed.hardest_of(*outcomes, fraction=0.1)
    rows = [
        {"participant": "p", "set": side, "example": i, "correct": int(i in set(hard.tolist()))}
        for side, hard, n in (("original", only.original, 100), ("new", only.new, 60))
        for i in range(n)
    ]
    row = testbed.human_table(rows, only=only).rows[0]
    assert (row.original.value, row.original.n) == (1.0, len(only.original))
    assert (row.new.value, row.new.n) == (1.0, len(only.new))
    with pytest.raises(InputError) as caught:
        testbed.human_table(people_rows(), only=only)
    assert caught.value.argument == "responses"
    with pytest.raises(InputError, match="counts"):
        testbed.hardest_of(simulate_counts([0.0, 1.0]))


def test_pairs_agree_with_the_exact_test_and_holm() -> None:
    outcomes = testbed.simulate([0.0, 0.1, 1.0, 2.0], examples=(500, 400), seed=4)
    result = testbed.pairs(*outcomes, resamples=2000)
    assert len(result.rows) == 6
    for row in result.rows:
        first, second = (outcomes[1].scores[outcomes[1].index(name)] == 1 for name in (row.first, row.second))
        only = int((first & ~second).sum()), int((~first & second).sum())
        assert (row.only_first, row.only_second) == only
        assert row.p == pytest.approx(binomtest(only[0], sum(only)).pvalue, rel=1e-9)
        assert row.difference.value == pytest.approx(first.mean() - second.mean())
        assert row.difference.value >= 0
    np.testing.assert_allclose([row.p_holm for row in result.rows], stats.holm([row.p for row in result.rows]))
    assert result.separated == sum(row.p_holm < 0.05 for row in result.rows)


def test_pairs_by_set_and_of_neighbours() -> None:
    outcomes = testbed.simulate([0.0, 1.0, 2.0], examples=(300, 200), seed=4)
    assert len(testbed.pairs(*outcomes, neighbours=True).rows) == 2
    assert testbed.pairs(*outcomes, test_set="original").rows[0].difference.n == 300
    with pytest.raises(InputError) as caught:
        testbed.pairs(*outcomes, test_set="v4")
    assert caught.value.argument == "test_set"
    with pytest.raises(InputError) as caught:
        testbed.pairs(simulate_counts([0.0, 1.0]))
    assert caught.value.argument == "scores"
