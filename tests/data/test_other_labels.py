"""Labels that are none of one class per example: regression targets, several labels, no labels."""

import numpy as np
import pyarrow
import pytest

import hardpan as hp
from hardpan.errors import InputError

X = np.random.default_rng(0).normal(size=(60, 2))


def table(labels):
    return pyarrow.table({"a": X[:, 0], "b": X[:, 1], "label": labels})


@pytest.mark.parametrize(
    ("source", "argument"),
    [
        (table((X[:, 0] + 0.1).tolist()), "label"),
        ((X, X[:, 0]), "y"),
        ((X, np.random.default_rng(0).integers(0, 2, (60, 3))), "y"),
        (table([["a", "b"] if k % 2 else ["c"] for k in range(60)]), "label"),
    ],
)
@pytest.mark.parametrize("read", [hp.Dataset.open, hp.audit, hp.look])
def test_a_regression_target_and_several_labels_are_refused(source, argument, read):
    with pytest.raises(InputError, match=argument):
        read(source)


def test_joined_labels_stay_classes_and_are_noticed():
    labels = ["a;b" if k % 3 == 0 else "a" if k % 3 == 1 else "b" for k in range(60)]
    data = hp.Dataset.open(table(labels))
    assert data.n_classes == 3
    assert [item.code for item in data.warnings] == ["joined_labels"]
    plain = hp.Dataset.open(table(["red, white" if k % 2 else "red" for k in range(60)]))
    assert not plain.warnings


def test_data_without_labels_say_what_an_audit_needs():
    with pytest.raises(InputError):
        hp.audit(X)
    assert hp.look(X).what == "unlabelled"
