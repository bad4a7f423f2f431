"""Numbers that stand for "nothing given" in the settings are refused when somebody gives them."""

import pytest

from hardpan.cli import main


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rate", "0"),
        ("rate", "-1"),
        ("rate", "nan"),
        ("weight_decay", "-1"),
        ("weight_decay", "nan"),
        ("clip", "-1"),
    ],
)
def test_a_number_that_cannot_be_meant_is_refused(tmp_path, capsys, name, value):
    with pytest.raises(SystemExit) as ended:
        main(["train", "digits", "--model", "linear", "--set", f"{name}={value}", "--out", str(tmp_path / "run")])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"hardpan: --set {name} must be")
    assert not list(tmp_path.iterdir())


def test_no_weight_decay_at_all_can_be_asked_for(tmp_path, capsys):
    arguments = ["train", "digits", "--model", "linear", "--seeds", "1", "--epochs", "1", "--workers", "1"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--set", "weight_decay=0", "--device", "cpu", "--out", str(tmp_path / "run")])
    assert ended.value.code == 0
    from hardpan.predictions import Predictions

    assert Predictions.open(tmp_path / "run").config["weight_decay"] == 0
