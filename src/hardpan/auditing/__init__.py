"""The audit: one dataset in, one report out.

``running.py`` has the steps in order, ``evidence.py`` the settings and what the steps work on. ``training.py`` fits
models within the budget, ``problems.py`` lists what speaks against a score.
What people read is made in :mod:`hardpan.pages.auditing`.
"""

from hardpan.auditing.comparison import compare
from hardpan.auditing.evidence import AuditConfig
from hardpan.auditing.labels import label_issues
from hardpan.auditing.problems import KINDS
from hardpan.auditing.running import Audit, audit, read_audit
from hardpan.lazy import exports

exports(__name__)
