import time

from hardpan.cli import common


def test_quick_work_shows_no_progress(capsys):
    with common.progress_on_stderr() as show:
        show("beginning", 0.0)
    assert capsys.readouterr() == ("", "")


def test_many_short_steps_are_a_few_lines_and_the_last_is_named(capsys, monkeypatch):
    monkeypatch.setattr(common, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(common, "SPACING_SECONDS", 0.4)
    with common.progress_on_stderr() as show:
        for number in range(1000):
            show(f"step {number}", number / 1000)
        time.sleep(1.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "hardpan: 100 % step 999"
    assert len(lines) < 20


def test_a_long_step_is_named_once_the_quiet_is_over_and_never_on_stdout(capsys, monkeypatch):
    monkeypatch.setattr(common, "QUIET_SECONDS", 0.3)
    monkeypatch.setattr(common, "SPACING_SECONDS", 0.1)
    with common.progress_on_stderr() as show:
        show("reading", 0.0)
        show("fitting", 0.5)
        time.sleep(1.0)
        show("writing", 0.9)
        time.sleep(1.0)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "hardpan:  50 % fitting\nhardpan:  90 % writing\n"
