"""A page inside a notebook."""

from __future__ import annotations

import html


def framed(page: str) -> str:
    """A page as a notebook shows it: in a frame of its own, apart from the notebook's styles and scripts.

    Example:
        >>> framed("<p>7</p>").endswith('srcdoc="&lt;p&gt;7&lt;/p&gt;"></iframe>')
        True
    """
    inside = html.escape(page, quote=True)
    style = "width: 100%; height: 48rem; border: 1px solid #888"
    return f'<iframe sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{inside}"></iframe>'
