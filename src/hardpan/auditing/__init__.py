"""The audit: one dataset in, one report out.

::

    evidence.py    settings, and what every part works on and gives back
    planning.py    what will run, and how long
    materials.py   predictions, flow and votes: given, or trained here
    progress.py    how far it is
    running.py     the parts in order, and the report they make together
    floor.py       how low can the error go
    hardness.py    which examples are hard
    fresh.py       will the score hold
    quality.py     copies, conflicting labels, near-duplicates
    counts.py      what is in the dataset
    verdict.py     what the parts say together
    measures.py    the numbers that every audit gives by the same names
    provenance.py  how to make it again
    finished.py    the record of an audit, and its page
    examples.py    every example joined in one table
    comparing.py   audits side by side; compared.py is their page
"""

from hardpan.auditing.comparing import AuditComparison, compare, read_audit
from hardpan.auditing.evidence import AuditConfig, Evidence, Finding
from hardpan.auditing.finished import Audit
from hardpan.auditing.running import PARTS, Part, audit

__all__ = [
    "PARTS",
    "Audit",
    "AuditComparison",
    "AuditConfig",
    "Evidence",
    "Finding",
    "Part",
    "audit",
    "compare",
    "read_audit",
]
