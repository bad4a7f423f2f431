"""The project's database, and the only module that speaks SQL: SQLite (WAL) or, by its address, PostgreSQL.

Everything here takes a :class:`~hardpan.replicate.project.Project` first, runs in one transaction, and may be
called from many threads and processes at once. Votes, decisions, answers and events are append-only: the database
itself refuses to alter them.
"""
