"""A project of shapes that is served to visitors, over SQLite and over PostgreSQL."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tests.web import small
from tests.web.visitor import GENEROUS, Town


@pytest.fixture
def open_town(tmp_path, database_server):
    towns = []

    def start(limits=GENEROUS):
        project, token = small.copy(tmp_path / f"project-{len(towns)}", database_server)
        project.close()  # the same project again, with the town's clock
        town = Town(replace(project, clock=lambda: time.time() + town.shift), token, limits)
        towns.append(town)
        return town

    yield start
    for town in towns:
        town.close()
        small.remove(town.project)


@pytest.fixture
def town(open_town):
    return open_town()
