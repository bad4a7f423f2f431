"""What a worker has done is counted for every task: from an index alone, not from leases with all their images."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One index that holds all that is asked of a worker's leases, instead of a narrower one."""
    op.create_index(
        "ix_assignments_worker", "assignments", ["worker_id", "state", "expires_at", "task_id"], unique=False
    )
    op.drop_index("ix_assignments_worker_id", "assignments")
