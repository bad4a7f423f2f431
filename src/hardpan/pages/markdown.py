"""A report as Markdown, for the summary of a CI job or a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hardpan import arguments
from hardpan.pages import formatting
from hardpan.pages.sections import Table, View

MOST_ROWS = 50  # of a table
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#&])")


def render_markdown(view: View) -> str:
    """Headline, sentences, warnings and tables as GitHub-flavoured Markdown; folded tables behind a click.

    Example:
        >>> from hardpan.pages.sections import Section, table_of_columns
        >>> table = table_of_columns("Tasks", {"task": ["a|b"], "items": [3]})
        >>> print(render_markdown(View("Gate", "Pass.", (Section("Gate", ("All is *well*.",), tables=(table,)),))))
        ## Pass.
        <BLANKLINE>
        All is \\*well\\*.
        <BLANKLINE>
        **Tasks**
        <BLANKLINE>
        | task | items |
        |---|---|
        | a\\|b | 3 |
        <BLANKLINE>
    """
    blocks = [f"## {_markdown_text(view.headline)}", *map(_markdown_text, view.lede)]
    for number, section in enumerate(view.sections):
        blocks += [f"### {_markdown_text(section.title)}"] if number else []
        blocks += ["  \n".join(map(_markdown_text, section.sentences))] if section.sentences else []
        blocks += [f"> {_markdown_text(sentence)}" for sentence in section.warnings]
        for table in section.tables:
            blocks += [f"**{_markdown_text(table.title)}**", *_markdown_rows(table)]
        for item in section.folded:
            if isinstance(item, Table):
                title = f"<details><summary>{_markdown_text(item.title)}</summary>"
                blocks += [title, *_markdown_rows(item), "</details>"]
    return "\n\n".join(blocks) + "\n"


def _markdown_text(text: str) -> str:
    """Names of files, models and items as they are: none of their letters is markup."""
    return _SPECIAL.sub(r"\\\1", arguments.clean_text(text))


def _markdown_rows(table: Table) -> Iterator[str]:
    cells = [formatting.column(column) for column in zip(*table.rows[:MOST_ROWS], strict=True)]
    lines = [table.columns, *zip(*cells, strict=True)]
    rows = [f"| {' | '.join(map(_markdown_text, line))} |" for line in lines]
    yield "\n".join([rows[0], "|" + "---|" * len(table.columns), *rows[1:]])
    if len(table.rows) > MOST_ROWS:
        yield f"{len(table.rows) - MOST_ROWS:,} more rows are in report.json."
