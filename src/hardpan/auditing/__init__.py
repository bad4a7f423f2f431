"""The audit: one dataset in, one report out.

::

    running.py     the steps in order, and the report they make together
    evidence.py    settings, and what the steps work on
    budget.py      what is trained, and for how long
    training.py    classifiers, out-of-fold predictions, learning curve, within the budget
    networks.py    the small networks
    flow.py        the flow
    problems.py    copies, labels, classes, size, features, predictions
    labels.py      labels ranked by predictions, annotators' votes, the review of a sample
    near_copies.py test examples that are nearer to training examples than others drawn like train
    hardness.py    which examples are hard
    fresh.py       will the score hold
    data_curve.py  what more data could bring
    error_budget.py what better labels or better models could bring
    examples.py    every example in one table
    comparison.py  audits side by side

What people read is made in :mod:`hardpan.pages.auditing`.
"""

from hardpan.auditing.comparison import compare
from hardpan.auditing.evidence import AuditConfig
from hardpan.auditing.labels import label_issues
from hardpan.auditing.problems import KINDS
from hardpan.auditing.running import Audit, audit, read_audit
from hardpan.lazy import exports

exports(__name__)
