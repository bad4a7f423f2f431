"""Workers can be blocked, with or without excluding the votes that they have given."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """When a worker was blocked, and when the votes were excluded; null where that has not happened."""
    op.add_column("workers", sa.Column("blocked_at", sa.Double(), nullable=True))
    op.add_column("workers", sa.Column("excluded_at", sa.Double(), nullable=True))
