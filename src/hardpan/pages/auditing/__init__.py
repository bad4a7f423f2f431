"""What an audit and a comparison of audits say and show: the only modules of the package that make sentences."""

from __future__ import annotations

import functools
from typing import Any

from hardpan.auditing.comparison import AuditComparison
from hardpan.auditing.running import Audit
from hardpan.pages.auditing.comparison import comparison_view
from hardpan.pages.auditing.overview import audit_view
from hardpan.report.base import View


@functools.singledispatch
def view(result: Any) -> View:
    """What a result of this package says and shows."""
    raise TypeError(f"no view of a {type(result).__name__}")


view.register(Audit, audit_view)
view.register(AuditComparison, comparison_view)
