"""A project of shapes that is served to visitors."""

from __future__ import annotations

import pytest
from tests.web import small
from tests.web.visitor import Town


@pytest.fixture
def town(tmp_path):
    project, token = small.copy(tmp_path / "project")
    yield Town(project, token)
    project.close()
