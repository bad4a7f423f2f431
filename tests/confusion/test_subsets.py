"""Hard subsets and their manifests."""

import json

import numpy as np
import pytest
from tests.confusion.planted import random_probs

from hardpan import confusion, files
from hardpan.errors import InputError
from hardpan.estimates import Interval


def subset_scores(n=60):
    return confusion.scores(random_probs(2, 3, n, 4), labels=np.arange(n) % 4, ids=[f"e{i}" for i in range(n)])


def test_subsets_hold_what_the_rule_says():
    s = subset_scores()
    hard = confusion.subset(s, fraction=0.1)
    assert set(hard.ids) == set(s.ids[np.argsort(-s.values)[:6]])
    assert np.all(np.diff(s.values[hard.rows(s.ids)]) <= 0)
    assert confusion.subset(s, count=6).ids.tolist() == hard.ids.tolist()
    cut = confusion.subset(s, threshold=1.0)
    assert set(cut.ids) == set(s.ids[s.values >= 1.0])
    assert cut.threshold >= 1.0
    fair = confusion.subset(s, count=8, balanced=True)
    assert set(fair.per_class.values()) == {2}


def test_a_subset_does_not_depend_on_the_order_of_rows():
    s = confusion.scores(np.full((1, 1, 9, 2), 0.5), ids=list("ihgfedcba"))
    assert confusion.subset(s, count=3).ids.tolist() == ["a", "b", "c"]


def test_a_manifest_is_checked_on_use(tmp_path):
    s = subset_scores()
    path = confusion.subset(s, count=5).save(tmp_path / "hard.json")
    back = confusion.load_subset(path)
    back.check(s)
    assert back.rows(s.ids[::-1]).tolist() == [59 - row for row in back.rows(s.ids)]
    with pytest.raises(InputError, match="subset"):
        back.check(subset_scores(40))
    with pytest.raises(InputError, match="subset"):
        back.rows(["e1", "e2"])
    written = json.loads(path.read_text())
    written["ids"][0] = "e59x"
    path.write_text(json.dumps(written))
    with pytest.raises(InputError, match=r"hard\.json"):
        confusion.load_subset(path)
    written["version"] = 2
    path.write_text(json.dumps(written))
    with pytest.raises(InputError, match=r"hard\.json"):
        confusion.load_subset(path)
    files.save(Interval(0, 1), path)
    with pytest.raises(InputError, match=r"hard\.json"):
        confusion.load_subset(path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "threshold"),
        ({"count": 3, "fraction": 0.5}, "count"),
        ({"count": 0}, "count"),
        ({"count": 61}, "count"),
        ({"count": 7, "balanced": True}, "count"),
        ({"threshold": 99.0}, "score"),
        ({"threshold": 1.0, "balanced": True}, "threshold"),
        ({"fraction": 0.0}, "fraction"),
    ],
)
def test_rules_that_make_no_subset(options, said):
    with pytest.raises(InputError, match=said):
        confusion.subset(subset_scores(), **options)
