"""The audit: one dataset in, one report out.

::

    evidence.py    settings, and what every part works on and gives back
    running.py     the parts in order, and the report they make together
    floor.py       how low can the error go
    fresh.py       will the score hold
    counts.py      what is in the dataset
    finished.py    the record of an audit, and its page
    examples.py    every example joined in one table
    comparing.py   audits side by side
"""

from hardpan.audit.comparing import AuditComparison, compare, read_audit
from hardpan.audit.evidence import AuditConfig, Evidence, Finding
from hardpan.audit.finished import Audit
from hardpan.audit.running import PARTS, Part, run

__all__ = [
    "PARTS",
    "Audit",
    "AuditComparison",
    "AuditConfig",
    "Evidence",
    "Finding",
    "Part",
    "compare",
    "read_audit",
    "run",
]
