"""What people read about something that was recognised: what it is, and the command of each question."""

from __future__ import annotations

from hardpan.errors import counted
from hardpan.pages import formatting
from hardpan.pages.field_views import view
from hardpan.pages.sections import Section, Table, View
from hardpan.recognition import Recognition

__all__ = ["view"]

KINDS = {
    "dataset": "a labelled dataset",
    "unlabelled": "data without labels",
    "predictions": "class probabilities that models predicted",
    "scores": "scores of models on items",
    "counts": "scores of models on two whole test sets",
    "battles": "battles of two models each",
    "votes": "annotators' votes",
    "audit": "an audit",
    "project": "a project for a new test set",
    "ledger": "a sealed test set",
    "flow": "a flow, a generative model with a known Bayes error",
    "report": "a saved report",
}
QUESTIONS = {
    "problems": "What is wrong with it?",
    "floor": "How low can the error go?",
    "train": "What do classifiers predict?",
    "fresh": "Will a score hold?",
    "accuracy": "Accuracy without labels?",
    "hard": "Which examples are hard?",
    "rank": "Which models can be ranked?",
    "whole": "Is it complete and unchanged?",
    "board": "Everything on one page",
    "items": "Which items are broken?",
    "shorten": "Can the test be shorter?",
    "worse": "Is a run worse than another?",
    "fresh-scores": "Does the score hold?",
    "outvoted": "Which labels are outvoted?",
    "resume": "It is not finished: resume it",
    "rows": "What do the examples look like?",
    "review": "How many labels are wrong?",
    "compare": "Did it get better? Which is harder?",
    "next": "What is the next step?",
    "annotate": "How do people annotate it?",
    "submit": "How good is a submission?",
    "samples": "What does it generate?",
    "benchmark": "A benchmark from it?",
}
PLURALS = {"class": "classes"}


@view.register
def recognition_view(found: Recognition) -> View:
    """What it is in one sentence, what its reader noticed, and a table of questions and commands."""
    sizes = [counted(count, what, PLURALS.get(what, "")) for what, count in found.sizes.items()]
    what = KINDS[found.what] + (f": {', '.join(sizes)}" if sizes else "")
    roles = [f"{role} = {column}" for role, column in found.columns.items()]
    columns = [f"Columns: {', '.join(roles)}."] if roles else []
    finding = [found.finding] if found.finding else []
    notes = [f"{formatting.capital(note)}." for note in found.notes]
    if found.what == "dataset" and "test example" not in found.sizes:
        notes.append("It has no test set of its own; an audit draws one.")
    if found.what == "unlabelled":
        notes.append("Problems, hard examples and the lowest possible error are about labels: name their column.")
    rows = tuple((QUESTIONS[step.question], step.command) for step in found.steps)
    tables = (Table("", ("question", "command"), rows),) if rows else ()
    sections = [Section("What can be asked", tables=tables)] if tables else []
    if found.detail is not None:
        sections += found.detail.view().sections
    return View(
        "What this is",
        f"{found.source or 'This'} is {what}.",
        tuple(sections),
        lede=(*finding, *columns, *(note.replace("..", ".") for note in notes)),
        columns={name: [getattr(step, name) for step in found.steps] for name in ("question", "command", "ready")},
    )
