"""Turn docstrings into Markdown for the API pages (a Griffe extension that mkdocs.yml names).

Docstrings are written to be read in the source and in a terminal: ``Example:`` for a doctest, ``:func:`name``` for
a name, ``::`` before literal text. The page builder knows ``Examples:``, Markdown code and indented blocks; a
doctest outside an ``Examples:`` section would become nested quotations, so it is fenced.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|mod|meth|data|attr|exc):`~?([^`]+)`")
EXAMPLE = re.compile(r"^([ \t]*)Example:[ \t]*$", re.MULTILINE)
LITERAL_ALONE = re.compile(r"^[ \t]*::[ \t]*$\n?", re.MULTILINE)
LITERAL = re.compile(r"::[ \t]*$", re.MULTILINE)


def markdown(text: str) -> str:
    """Give a docstring's text in the form that the page builder understands.

    Example:
        >>> print(markdown("Two:\\n\\n>>> 1 + 1\\n2\\n\\nDone."))
        Two:
        <BLANKLINE>
        ```pycon
        >>> 1 + 1
        2
        ```
        <BLANKLINE>
        Done.
    """
    text = EXAMPLE.sub(r"\1Examples:", ROLE.sub(r"`\1`", text))
    return _fenced(LITERAL.sub(":", LITERAL_ALONE.sub("", text)))


def _fenced(text: str) -> str:
    """Fence doctests that are not indented under a section."""
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        if not inside and line.startswith(">>>"):
            lines.append("```pycon")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)


class Docstrings(griffe.Extension):
    """Rewrites every docstring once it is read, and lets a ``@record`` have the constructor of a dataclass."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Read ``@record`` as the ``@dataclass`` that it makes."""
        for decorator in cls.decorators:
            call = decorator.value
            function = call.function if isinstance(call, griffe.ExprCall) else call
            if str(function) in ("record", "files.record"):
                maker = griffe.ExprName("dataclass", parent="dataclasses")
                arguments = call.arguments if isinstance(call, griffe.ExprCall) else []
                decorator.value = griffe.ExprCall(maker, arguments)
                cls.labels.add("dataclass")

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
