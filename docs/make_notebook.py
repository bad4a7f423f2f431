"""Write docs/tutorials/notebook.ipynb and notebook.md: run the cells and keep what they print.

``python docs/make_notebook.py`` after a change; the tests run the cells of the notebook again.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "tutorials"
CELLS = (
    (
        "markdown",
        "# hardpan in a notebook\n\nIn a notebook a report shows its first screen, and every other object one "
        "informative line.",
    ),
    ("code", 'import numpy as np\n\nimport hardpan as hp\n\ndigits = hp.Dataset.open("digits")\ndigits'),
    (
        "markdown",
        "## Audit a dataset\n\n`hp.audit` takes a name, a file, a folder, a frame, arrays, a torch or Hugging "
        "Face "
        'dataset. Without networks (`ensemble="none"`) it takes a few seconds.',
    ),
    ("code", 'report = hp.audit(digits, ensemble="none", flow="none")\nreport'),
    ("code", "[(problem.kind, problem.severity, problem.title) for problem in report.problems]"),
    ("markdown", "`report.save(folder)` writes the whole page, with everything in it, as one HTML file."),
    (
        "markdown",
        "## Rank models\n\nOutcomes say which model got which item right. They come from logs of harnesses, "
        "from tables, or from arrays.",
    ),
    (
        "code",
        "rng = np.random.default_rng(0)\n"
        "skill, difficulty = np.linspace(-1, 2, 12), rng.normal(size=400)\n"
        "right = rng.random((12, 400)) < 1 / (1 + np.exp(difficulty - skill[:, None]))\n"
        'outcomes = hp.Outcomes.from_arrays(right, models=[f"model-{k}" for k in range(12)])\n'
        "outcomes",
    ),
    ("code", "ranking = hp.leaderboard.rank(outcomes)\nranking"),
    ("code", "ranking.to_frame().head(3)"),
    ("markdown", "## Numbers with their uncertainty\n\nEvery number is an `Estimate`."),
    (
        "code",
        "means = rng.normal(size=(10, 3072))\nerror = hp.bayes.gaussian(means, temperature=20.0)\nerror",
    ),
    ("code", "error.low < error.value < error.high"),
)


# Where the page shows a picture of what a notebook shows; docs/gallery_pictures.py takes it.
SHOWN = {
    'report = hp.audit(digits, ensemble="none", flow="none")\nreport': (
        "![The first screen of the audit in a notebook: headline, problems, errors of classifiers]"
        "(../images/notebook.png)"
    )
}


def run(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell: what it prints, and the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    return printed.getvalue(), value


def outputs(printed: str, value: Any, count: int) -> list[dict[str, Any]]:
    """A cell's outputs as the format has them."""
    found: list[dict[str, Any]] = []
    if printed:
        found.append({"output_type": "stream", "name": "stdout", "text": printed})
    if value is not None:
        data = {"text/plain": repr(value)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_()
        found.append({"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}})
    return found


def main() -> None:
    """Write both files."""
    cells: list[dict[str, Any]] = []
    page = ["[notebook.ipynb](notebook.ipynb) has these cells with their output; the tests run them."]
    names: dict[str, Any] = {}
    count = 0
    for number, (kind, source) in enumerate(CELLS):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source}
        if kind == "code":
            count += 1
            printed, value = run(source, names)
            cell |= {"execution_count": count, "outputs": outputs(printed, value, count)}
            page.append(f"```python\n{source}\n```")
            text = printed + ("" if value is None else getattr(value, "headline", repr(value)))
            page.append(f"```text\n{text}\n```")
            if source in SHOWN:
                page.append(SHOWN[source])
        else:
            page.append(source)
        cells.append(cell)
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    book = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (FOLDER / "notebook.ipynb").write_text(json.dumps(book, indent=1) + "\n", encoding="utf-8")
    first, *rest = page
    (FOLDER / "notebook.md").write_text("\n\n".join([rest[0], first, *rest[1:]]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
