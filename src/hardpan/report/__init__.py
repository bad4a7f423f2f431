"""Reports: records in, charts and one self-contained HTML page out.

The drawing library loads when a page is first written, so that commands that write none stay quick.
"""

from typing import TYPE_CHECKING

from hardpan.lazy import exports

if TYPE_CHECKING:
    from hardpan.report.writer import page

exports(__name__)
