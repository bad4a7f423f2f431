"""Reports: records in, charts and one self-contained HTML page out.

The drawing library loads when a page is first written, so that commands that write none stay quick.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpan.report.writer import page

__all__ = ["page"]


def __getattr__(name: str) -> Any:
    if name == "page":
        from hardpan.report.writer import page

        return page
    raise AttributeError(f"module 'hardpan.report' has no attribute {name!r}")
