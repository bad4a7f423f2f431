"""The questions of the human-accuracy experiment and their answers."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, insert, select

from hardpan.errors import InputError
from hardpan.replicate.database.connection import Answer, Image, Question, Worker
from hardpan.replicate.database.events import log_event
from hardpan.replicate.database.people import check_person_admitted
from hardpan.replicate.folder import ProjectFolder


@dataclass(frozen=True, slots=True)
class NextQuestion:
    """A question for a participant: its number names it and tells nothing of the image."""

    question: int
    done: int
    total: int


def choose_questions(project: ProjectFolder, original_ids: Sequence[str], new_ids: Sequence[str]) -> int:
    """Choose the images of the experiment (the hardest of each set), once; give how many there are."""
    now = project.clock()
    origins = dict.fromkeys(original_ids, "original") | dict.fromkeys(new_ids, "new")
    with project.database.write(alone=True) as connection:
        present = set(connection.scalars(select(Question.image_id)))
        if present:
            if present != set(origins):
                raise InputError("the experiment has begun with other images; its questions cannot change")
            return len(present)
        rows = connection.execute(select(Image.id, Image.class_index).where(Image.id.in_(list(origins)))).all()
        classes = {row.id: row.class_index for row in rows}
        missing = [name for name in origins if classes.get(name) is None]
        if missing:
            raise InputError(f"image {missing[0]!r} is not in this project or has no class")
        order = list(origins)
        secrets.SystemRandom().shuffle(order)  # question numbers must not reveal the origin
        questions = [{"image_id": n, "origin": origins[n], "class_index": classes[n]} for n in order]
        if questions:
            connection.execute(insert(Question), questions)
        log_event(connection, now, "owner", "experiment", original=len(original_ids), new=len(new_ids))
        return len(questions)


def next_question(project: ProjectFolder, worker_id: str) -> NextQuestion | None:
    """The next question in this participant's own order, or None at the end."""
    with project.database.read() as connection:
        questions = connection.scalars(select(Question.id)).all()
        answered = set(connection.scalars(select(Answer.question_id).where(Answer.worker_id == worker_id)))
    # Keyed by the project's secret: the same for this participant every time, unpredictable for anybody else.
    left = [number for number in questions if number not in answered]
    first = min(left, key=lambda number: project.sign("question", f"{worker_id}:{number}"), default=None)
    return None if first is None else NextQuestion(first, len(answered), len(questions))


def question_image(project: ProjectFolder, worker_id: str, question: int) -> bytes:
    """The image of a question, for participants only, encoded as :meth:`ProjectFolder.blinded_example` does."""
    with project.database.read() as connection:
        if connection.scalar(select(Worker.role).where(Worker.id == worker_id)) != "participant":
            raise InputError("this experiment is for its participants; enter by their link")
        row = connection.execute(
            select(Image.id, Image.row).join(Question, Question.image_id == Image.id).where(Question.id == question)
        ).first()
    if row is None:
        raise InputError("there is no such question")
    return project.blinded_example(row.id, row.row)


def answer_question(project: ProjectFolder, worker_id: str, question: int, class_index: int) -> bool:
    """Record an answer; the first one counts, and a repeat gives False."""
    if not 0 <= class_index < len(project.classes):
        raise InputError(f"must be from 0 to {len(project.classes) - 1}; got {class_index}", argument="class")
    now = project.clock()
    with project.database.write() as connection:
        # The worker's row is locked so that two tabs cannot answer the same question at the same time.
        connection.execute(select(Worker.id).where(Worker.id == worker_id).with_for_update())
        check_person_admitted(connection, worker_id, now, "participant")
        if connection.scalar(select(Question.id).where(Question.id == question)) is None:
            raise InputError("there is no such question")
        if connection.scalar(
            select(Answer.id).where(Answer.question_id == question, Answer.worker_id == worker_id)
        ):
            return False
        row = {"question_id": question, "worker_id": worker_id, "class_index": class_index, "at": now}
        connection.execute(insert(Answer), row)
        log_event(connection, now, worker_id, "answered", question=question)
        return True


def question_count(project: ProjectFolder) -> int:
    """How many questions the experiment has; 0 before it has begun."""
    with project.database.read() as connection:
        return int(connection.scalar(select(func.count()).select_from(Question)) or 0)


def question_answers(project: ProjectFolder) -> list[dict[str, str]]:
    """Answers as rows for ``testbed.human_table``: participant, set, response, label; people as numbers.

    Those of excluded people are left out; the others keep their numbers.
    """
    names = project.class_names
    with project.database.read() as connection:
        rows = connection.execute(
            select(Answer.worker_id, Question.origin, Answer.class_index.label("said"), Question.class_index)
            .join(Question, Question.id == Answer.question_id)
            .join(Worker, Worker.id == Answer.worker_id)
            .where(Worker.excluded_at.is_(None))
            .order_by(Answer.id)
        ).all()
        people = connection.scalars(
            select(Answer.worker_id).group_by(Answer.worker_id).order_by(func.min(Answer.id))
        ).all()
    number = {worker: str(position + 1) for position, worker in enumerate(people)}
    columns = ("participant", "set", "response", "label")
    answers = [(number[row.worker_id], row.origin, names[row.said], names[row.class_index]) for row in rows]
    return [dict(zip(columns, answer, strict=True)) for answer in answers]
