"""Five hundred command lines made from the commands' own flags (bench/faults.py runs five thousand)."""

import pytest
from tests.soak.invocations import run


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
def test_no_command_line_ends_in_a_traceback_and_only_gates_exit_1(tmp_path):
    tally = run(tmp_path, 500, seed=0)
    assert tally.wrong == []
    assert tally.codes[0] >= 250
