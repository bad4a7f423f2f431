"""What an audit and a comparison of audits say and show: the only modules of the package that make sentences."""

from __future__ import annotations

from hardpan.auditing.comparison import AuditComparison
from hardpan.auditing.running import Audit
from hardpan.pages.auditing.comparison import comparison_view
from hardpan.pages.auditing.overview import audit_view
from hardpan.report.generic import view

__all__ = ["view"]

view.register(Audit, audit_view)
view.register(AuditComparison, comparison_view)
