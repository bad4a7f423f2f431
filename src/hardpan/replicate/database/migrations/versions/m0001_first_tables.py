"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None
APPEND_ONLY = ("votes", "events", "decisions", "answers")


def upgrade() -> None:
    """Make every table."""
    _create_images_table()
    _create_people_tables()
    _create_tasks_tables()
    _create_votes_table()
    _create_sample_tables()
    _create_events_table()


def _create_images_table() -> None:
    """Images and what each keyword should give."""
    op.create_table(
        "images",
        sa.Column("id", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("content", sa.String(length=64), nullable=False),
        sa.Column("class_index", sa.Integer(), nullable=True),
        sa.Column("keyword", sa.String(length=200), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("date", sa.String(length=40), nullable=True),
        sa.Column("split", sa.String(length=16), nullable=False),
        sa.Column("row", sa.Integer(), nullable=True),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_images_class_index"), "images", ["class_index"], unique=False)
    op.create_index(op.f("ix_images_content"), "images", ["content"], unique=False)
    op.create_table(
        "quotas",
        sa.Column("class_index", sa.Integer(), nullable=False),
        sa.Column("keyword", sa.String(length=200), nullable=False),
        sa.Column("originals", sa.Integer(), nullable=False),
        sa.Column("quota", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("class_index", "keyword"),
    )


def _create_people_tables() -> None:
    """Invitations, workers, and the human-accuracy experiment."""
    op.create_table(
        "invitations",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "questions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("image_id", sa.String(length=200), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("class_index", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("image_id"),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("invitation_id", sa.String(length=64), nullable=True),
        sa.Column("external_id", sa.String(length=200), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("blocked_at", sa.Double(), nullable=True),
        sa.Column("excluded_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["invitation_id"], ["invitations.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("invitation_id", "external_id"),
    )
    op.create_table(
        "answers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("question_id", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.String(length=64), nullable=False),
        sa.Column("class_index", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["question_id"], ["questions.id"]),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("question_id", "worker_id"),
    )


def _create_tasks_tables() -> None:
    """Tasks, leases and votes."""
    op.create_table(
        "tasks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("class_index", sa.Integer(), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("needed", sa.Integer(), nullable=False),
        sa.Column("submitted", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "task_images",
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("image_id", sa.String(length=200), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"]),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"]),
        sa.PrimaryKeyConstraint("task_id", "image_id"),
    )
    op.create_index(op.f("ix_task_images_image_id"), "task_images", ["image_id"], unique=False)
    op.create_table(
        "assignments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("leased_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("submitted_at", sa.Double(), nullable=True),
        sa.Column("submission_key", sa.String(length=200), nullable=True),
        sa.Column("image_ids", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"]),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("task_id", "worker_id"),
        sa.UniqueConstraint("token"),
    )
    op.create_index("ix_assignments_state", "assignments", ["state", "expires_at"], unique=False)
    # What a worker has done is counted for every task: from this index alone, not from leases with all images.
    op.create_index(
        "ix_assignments_worker", "assignments", ["worker_id", "state", "expires_at", "task_id"], unique=False
    )


def _create_votes_table() -> None:
    """Answers, one for each worker, image and class."""
    op.create_table(
        "votes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("image_id", sa.String(length=200), nullable=False),
        sa.Column("class_index", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("selected", sa.Boolean(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"]),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("worker_id", "image_id", "class_index"),
    )
    op.create_index("ix_votes_image", "votes", ["image_id", "class_index"], unique=False)


def _create_sample_tables() -> None:
    """The sample, its possible duplicates, and decisions."""
    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("step", sa.String(length=24), nullable=False),
        sa.Column("subject", sa.String(length=200), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("worker_id", sa.String(length=64), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("submission_key", sa.String(length=200), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("submission_key"),
    )
    op.create_index("ix_decisions_subject", "decisions", ["step", "subject"], unique=False)
    op.create_table(
        "sample",
        sa.Column("image_id", sa.String(length=200), nullable=False),
        sa.Column("class_index", sa.Integer(), nullable=False),
        sa.Column("keyword", sa.String(length=200), nullable=True),
        sa.Column("frequency", sa.Double(), nullable=True),
        sa.Column("votes", sa.Integer(), nullable=False),
        sa.Column("how", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("removed_round", sa.Integer(), nullable=True),
        sa.Column("removed_why", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"]),
        sa.PrimaryKeyConstraint("image_id"),
    )
    op.create_table(
        "pairs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("image_id", sa.String(length=200), nullable=False),
        sa.Column("other_id", sa.String(length=200), nullable=False),
        sa.Column("other_split", sa.String(length=16), nullable=False),
        sa.Column("l2", sa.Double(), nullable=False),
        sa.Column("ssim", sa.Double(), nullable=False),
        sa.Column("features", sa.Double(), nullable=True),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"]),
        sa.ForeignKeyConstraint(["other_id"], ["images.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("image_id", "other_id"),
    )
    op.create_index(op.f("ix_pairs_image_id"), "pairs", ["image_id"], unique=False)


def _create_events_table() -> None:
    """The event log, and what must never be altered."""
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.String(length=64), nullable=False),
        sa.Column("what", sa.String(length=40), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_events_what"), "events", ["what"], unique=False)
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
        )
        for table in APPEND_ONLY:
            op.execute(
                f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
            )
    else:
        for table in APPEND_ONLY:
            for change in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
                )
