"""How DATA is read: the same options in every command that takes a dataset."""

from hardpan.cli.decorators import DataFlags
from hardpan.tables import write_table


def test_options_are_arguments_of_open(tmp_path):
    columns = {"key": ["01", "02", "03", "04"], "a": [1.5, 2.5, 3.5, 5.0], "b": [1, 1, 2, 2], "c": list("xyxy")}
    path = str(write_table(tmp_path / "t.csv", columns | {"z": [0.5] * 4}))
    flags = DataFlags(label="c", id="key", drop=("z", "b"), class_names=("y", "x"), name="mine")
    dataset = flags.open(path)
    assert dataset.feature_names == ("a",)
    assert dataset.ids.tolist() == columns["key"]
    assert dataset.labels.tolist() == [1, 0, 1, 0]
    assert DataFlags(label="c", group="b").open(path).metadata["group"].tolist() == ["1", "1", "2", "2"]
    assert DataFlags(columns={"label": "c", "group": "b"}).open(path).metadata["group"].tolist() == [
        "1",
        "1",
        "2",
        "2",
    ]


def test_without_options_workers_read_the_data_by_its_name():
    assert DataFlags().apply("digits") == "digits"
