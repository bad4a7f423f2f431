"""The project's database, and the only module that speaks SQL: SQLite (WAL) or, by its address, PostgreSQL.

Everything here takes a :class:`~hardpan.replicate.project.Project` first, runs in one transaction, and may be
called from many threads and processes at once. Votes, decisions, answers and events are append-only: the database
itself refuses to alter them.

SQLAlchemy is an optional dependency: functions of the modules are imported at first use, such as
``database.record_decision``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hardpan.errors import MissingExtra

if TYPE_CHECKING:
    from hardpan.replicate.database.connection import *  # noqa: F403
    from hardpan.replicate.database.decisions import *  # noqa: F403
    from hardpan.replicate.database.events import *  # noqa: F403
    from hardpan.replicate.database.images import *  # noqa: F403
    from hardpan.replicate.database.leases import *  # noqa: F403
    from hardpan.replicate.database.people import *  # noqa: F403
    from hardpan.replicate.database.questions import *  # noqa: F403
    from hardpan.replicate.database.tasks import *  # noqa: F403
    from hardpan.replicate.database.votes import *  # noqa: F403

_MODULES = ("connection", "people", "images", "tasks", "decisions", "leases", "votes", "questions", "events")


def __getattr__(name: str) -> Any:
    for module in () if name in _MODULES or name.startswith("__") else _MODULES:
        try:
            inner = importlib.import_module(f"{__name__}.{module}")
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name or "sqlalchemy", "web") from error
        if getattr(vars(inner).get(name), "__module__", "") == inner.__name__:
            return vars(inner)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
