"""Reports: records in, charts and one self-contained HTML page out."""

from hardpan.report.page import page

__all__ = ["page"]
