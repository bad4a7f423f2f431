"""Training in the tests: one run after another in this process, unless a test says otherwise."""

import pytest

import hardpan


@pytest.fixture(scope="module", autouse=True)
def _one_run_at_a_time():
    with hardpan.parallel(workers=1):
        yield
