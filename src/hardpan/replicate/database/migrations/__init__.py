"""The steps from an empty database to this version's tables, in order, run by Alembic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def upgrade_database(connection: Connection) -> None:
    """Run what this database has not seen yet, inside the transaction of ``connection``."""
    scripts = ScriptDirectory(str(Path(__file__).parent))

    def steps(current: Any, _: Any) -> Any:
        return scripts._upgrade_revs("heads", current)

    context = MigrationContext.configure(connection, opts={"fn": steps, "script": scripts})
    with Operations.context(context):
        context.run_migrations()
