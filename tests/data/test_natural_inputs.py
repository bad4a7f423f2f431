"""What people have, and the mistakes they make: works with these numbers, or is refused naming this argument.

Each line of WORKS and REFUSED is one input. A builder gets an empty folder and gives the source for
``Dataset.open`` and its options.
"""

import gzip
import io
import zipfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
import torch
from PIL import Image
from scipy import sparse

from hardpan.data.dataset import Dataset
from hardpan.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = np.arange(30) % 3
GREY = RNG.integers(0, 256, (30, 8, 9), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (30, 8, 9, 3), dtype=np.uint8)
NAMES = np.array(["cat", "dog", "owl"])
SPELT = np.where(np.arange(30) == 3, "CAT", NAMES[Y])
SPACED = "a, kind\n" + "".join(f"{X[k, 0]}, {NAMES[Y[k]]}\n" for k in range(30))
LATE_COMMAS = "a;label\n" + "".join(f"{k}{',5' if k > 25 else ''};{NAMES[Y[k]]}\n" for k in range(30))
COLUMNS = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "label": NAMES[Y]}


def frame(**more):
    return pandas.DataFrame({**COLUMNS, **more})


def csv(folder, text, name="data.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def csv_of(data, folder, **options):
    data.to_csv(folder / "data.csv", **options)
    return folder / "data.csv"


def parquet_of(data, folder, **options):
    data.to_parquet(folder / "data.parquet", **options)
    return folder / "data.parquet"


def npz(folder, **arrays):
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


def png(pixels, kind="PNG"):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def picture_folder(folder, sizes=((8, 9),), ending="png"):
    for row in range(6):
        height, width = sizes[row % len(sizes)]
        place = folder / "pictures" / str(NAMES[row % 3])
        place.mkdir(parents=True, exist_ok=True)
        image = RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(image).save(place / f"{row}.{ending}")
    return folder / "pictures"


def hugging_face(splits=("train", "test")):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"a": datasets.Value("float64"), "label": datasets.ClassLabel(names=NAMES.tolist())}
    )
    data = datasets.Dataset.from_dict({"a": X[:, 0], "label": Y}, features=features)
    if splits is None:
        return data
    parts = (data.select(range(20)), data.select(range(20, 30)))
    return datasets.DatasetDict(dict(zip(splits, parts, strict=True)))


def hugging_face_images():
    datasets = pytest.importorskip("datasets")
    pictures = [{"bytes": png(image), "path": None} for image in COLOUR]
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=NAMES.tolist())})
    return datasets.Dataset.from_dict({"img": pictures, "label": Y}, features=features)


class Items(torch.utils.data.Dataset):
    classes = ("cat", "dog", "owl")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        return self.x[row], self.y[row]


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return zip(X, Y, strict=True)


class Named(torch.utils.data.Dataset):
    def __len__(self):
        return len(X)

    def __getitem__(self, row):
        return {"pixel_values": X[row], "labels": Y[row], "path": str(row)}


def bunch(name, **options):
    from sklearn import datasets

    return getattr(datasets, f"load_{name}")(**options)


@dataclass(frozen=True)
class Works:
    name: str
    build: Any
    shape: tuple[int, ...] = (30, 3)
    classes: tuple[str, ...] = ("cat", "dog", "owl")
    codes: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    splits: dict[str, int] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


NUMBERED = ("0", "1", "2")
ABC = ("a", "b", "c")
IRIS = ("setosa", "versicolor", "virginica")
OFFICIAL = {"train": 20, "test": 10}
WORKS = [
    Works(
        "free text",
        lambda f: frame()[["label"]].assign(text=[f"note {k}" for k in range(30)]),
        shape=(30, 0),
    ),
    Works("arrays", lambda f: (X, Y), classes=NUMBERED),
    Works("a sparse matrix", lambda f: (sparse.csr_array(X), Y), classes=NUMBERED),
    Works("arrays with text", lambda f: (X, NAMES[Y])),
    Works("lists", lambda f: (X.tolist(), NAMES[Y].tolist())),
    Works("four arrays", lambda f: (X[:20], Y[:20], X[20:], Y[20:]), classes=NUMBERED, splits=OFFICIAL),
    Works("labels as a column", lambda f: (X, Y[:, None]), classes=NUMBERED),
    Works("labels as whole floats", lambda f: (X, Y.astype(float)), classes=NUMBERED),
    Works("labels as booleans", lambda f: (X, Y == 1), classes=("False", "True")),
    Works("labels from 1", lambda f: (X, Y + 1), classes=("1", "2", "3"), codes=("renumbered_labels",)),
    Works("labels -1 and 1", lambda f: (X, 2 * (Y == 1) - 1), classes=("-1", "1"), codes=("renumbered_labels",)),
    Works(
        "labels from 1 with names",
        lambda f: (X, Y + 1),
        codes=("renumbered_labels",),
        options={"class_names": NAMES.tolist()},
    ),
    Works(
        "a class without examples",
        lambda f: (X, Y * 2),
        classes=tuple("vwxyz"),
        options={"class_names": "v,w,x,y,z"},
    ),
    Works("an array alone", lambda f: X, classes=()),
    Works("tensors", lambda f: (torch.tensor(X), torch.tensor(Y)), classes=NUMBERED),
    Works("grey images", lambda f: (GREY, Y), (30, 8, 9), NUMBERED),
    Works(
        "channels first", lambda f: (COLOUR.transpose(0, 3, 1, 2), Y), (30, 8, 9, 3), NUMBERED, ("channels_first",)
    ),
    Works("one channel first", lambda f: (GREY[:, None], Y), (30, 8, 9), NUMBERED, ("channels_first",)),
    Works("npz x, y", lambda f: npz(f, x=X, y=Y), classes=NUMBERED),
    Works("npz X, Y", lambda f: npz(f, X=X, Y=Y), classes=NUMBERED),
    Works("npz data, target", lambda f: npz(f, data=X, target=NAMES[Y])),
    Works("npz images, labels", lambda f: npz(f, images=GREY, labels=Y), (30, 8, 9), NUMBERED),
    Works(
        "npz of four",
        lambda f: npz(f, x_train=X[:20], y_train=Y[:20], x_test=X[20:], y_test=Y[20:]),
        classes=NUMBERED,
        splits=OFFICIAL,
    ),
    Works(
        "npz as MedMNIST has it",
        lambda f: npz(
            f,
            train_images=GREY[:15],
            train_labels=Y[:15, None],
            val_images=GREY[15:20],
            val_labels=Y[15:20, None],
            test_images=GREY[20:],
            test_labels=Y[20:, None],
        ),
        (30, 8, 9),
        NUMBERED,
        splits={"train": 15, "validation": 5, "test": 10},
    ),
    Works("npy", lambda f: np.save(f / "x.npy", X) or f / "x.npy", classes=()),
    Works("pandas frame", lambda f: frame(), features=ABC),
    Works("shuffled pandas frame", lambda f: frame().sample(frac=1, random_state=0), features=ABC),
    Works("frame and labels apart", lambda f: (frame()[list(ABC)], frame()["label"]), features=ABC),
    Works(
        "frames and labels apart, train and test",
        lambda f: (frame()[list(ABC)][:20], NAMES[Y[:20]], frame()[list(ABC)][20:], NAMES[Y[20:]]),
        splits=OFFICIAL,
        features=ABC,
    ),
    Works(
        "frame with text and labels apart",
        lambda f: (frame(town=["rome", "oslo"] * 15).drop(columns="label"), Y),
        (30, 5),
        NUMBERED,
    ),
    Works(
        "polars frame and series",
        lambda f: (polars.DataFrame(COLUMNS)[list(ABC)], polars.Series(NAMES[Y])),
        features=ABC,
    ),
    Works("scikit-learn Bunch of frames", lambda f: bunch("iris", as_frame=True), (150, 4), IRIS),
    Works(
        "nullable integers",
        lambda f: frame(n=pandas.array([1, None, 7] * 10, dtype="Int64")),
        (30, 5),
        features=(*ABC, "n", "n is missing"),
    ),
    Works("embeddings in a frame", lambda f: pandas.DataFrame({"emb": list(X), "label": NAMES[Y]})),
    Works("polars frame", lambda f: polars.DataFrame(COLUMNS), features=ABC),
    Works("pyarrow table", lambda f: pyarrow.table(COLUMNS), features=ABC),
    Works(
        "pandas frame, another label",
        lambda f: frame().rename(columns={"label": "species"}),
        features=ABC,
        options={"label": "species"},
    ),
    Works("pandas categories", lambda f: frame().astype({"label": "category"}), features=ABC),
    Works(
        "frame with text",
        lambda f: frame(town=["rome", "oslo"] * 15),
        (30, 5),
        features=(*ABC, "town=oslo", "town=rome"),
    ),
    Works(
        "frame with gaps", lambda f: frame(age=[None, 5.0] * 15), (30, 5), features=(*ABC, "age", "age is missing")
    ),
    Works(
        "frame with dates",
        lambda f: frame(day=pandas.date_range("2026-01-03", periods=30)),
        (30, 5),
        features=(*ABC, "day (month)", "day (weekday)"),
        codes=("dates",),
    ),
    Works(
        "csv with dates as text, and one missing",
        lambda f: csv_of(
            frame(seen=[*(f"{k + 1}/{1 + k % 2}/2020 {k % 24}:30" for k in range(29)), ""]), f, index=False
        ),
        (30, 9),
        features=(
            *ABC,
            *(
                f"seen ({part}){missing}"
                for part in ("month", "weekday", "hour")
                for missing in ("", " is missing")
            ),
        ),
        codes=("dates",),
    ),
    Works(
        "frame with free text",
        lambda f: frame(note=[f"note {k}" for k in range(30)]),
        features=ABC,
        codes=("unused_column",),
    ),
    Works(
        "frame with a row number",
        lambda f: frame(number=range(100, 130)),
        (30, 4),
        features=(*ABC, "number"),
        codes=("identifier",),
    ),
    Works(
        "frame with a shuffled row number",
        lambda f: frame(number=RNG.permutation(30)),
        (30, 4),
        codes=("identifier",),
    ),
    Works("frame with a constant", lambda f: frame(unit=1.5), (30, 4), codes=("constant",)),
    Works("csv with the index of pandas", lambda f: csv_of(frame(), f), features=ABC, codes=("index_column",)),
    Works("csv without the index", lambda f: csv_of(frame(), f, index=False), features=ABC),
    Works(
        "csv read and written twice",
        lambda f: csv_of(frame(**{"Unnamed: 0": range(30)}), f, index=False),
        features=ABC,
        codes=("index_column",),
    ),
    Works(
        "parquet of a shuffled frame",
        lambda f: parquet_of(frame().sample(frac=1, random_state=0), f),
        features=ABC,
        codes=("index_column",),
    ),
    Works(
        "parquet with an index that has a name",
        lambda f: parquet_of(frame(key=[f"k{i}" for i in range(30)]).set_index("key"), f),
        features=ABC,
        codes=("index_column",),
    ),
    Works(
        "csv with semicolons and decimal commas",
        lambda f: csv_of(frame(), f, index=False, sep=";", decimal=","),
        features=ABC,
    ),
    Works("tsv", lambda f: csv_of(frame(), f, index=False, sep="\t").rename(f / "data.tsv"), features=ABC),
    Works(
        "csv in UTF-16",
        lambda f: csv_of(frame(), f, index=False, encoding="utf-16"),
        features=ABC,
        codes=("encoding",),
    ),
    Works(
        "csv in UTF-16 without its mark",
        lambda f: csv_of(frame(), f, index=False, encoding="utf-16-le"),
        features=ABC,
        codes=("encoding",),
    ),
    Works(
        "csv in Latin-1",
        lambda f: csv_of(frame(place=["Köln", "Orléans"] * 15), f, index=False, encoding="latin-1"),
        (30, 5),
        features=(*ABC, "place=Köln", "place=Orléans"),
        codes=("encoding",),
    ),
    Works(
        "csv with columns without a name",
        lambda f: csv_of(frame().assign(**{"": 1 + X[:, 0], " ": X[:, 1]}), f, index=False),
        (30, 5),
        features=(*ABC, "column 5", "column 6"),
        codes=("unnamed_column",),
    ),
    Works("csv whose lines end with commas", lambda f: csv_of(frame(**{"": ""}), f, index=False), features=ABC),
    Works(
        "csv with a column twice",
        lambda f: csv(
            f, "a,a,b,label\n" + "".join(f"{k % 4},{X[k, 0]},{X[k, 1]},{NAMES[Y[k]]}\n" for k in range(30))
        ),
        features=("a", "a 2", "b"),
        codes=("repeated_column",),
    ),
    Works(
        "frame with a column twice, and one without a name",
        lambda f: frame(d=X[:, 0], e=X[:, 1]).set_axis(["a", "b", "c", "label", "a", None], axis=1),
        (30, 5),
        features=(*ABC, "a 2", "column 6"),
        codes=("repeated_column", "unnamed_column"),
    ),
    Works(
        "frame of features with a column twice beside labels",
        lambda f: (frame()[["a", "a", "b"]], Y),
        features=("a", "a 2", "b"),
        classes=NUMBERED,
        codes=("repeated_column",),
    ),
    Works(
        "days before months, as a time",
        lambda f: frame(day=[f"{k + 1}-2-2020" for k in range(29)] + ["1-3-2020"]),
        features=ABC,
        options={"columns": {"time": "day"}},
    ),
    Works(
        "rows without a label",
        lambda f: pandas.concat([frame(), frame(label=[None, "", " "] * 10)]),
        features=ABC,
        codes=("no_label_rows",),
    ),
    Works("a sheet of Excel", lambda f: frame().to_excel(f / "d.xlsx", index=False) or f / "d.xlsx", features=ABC),
    Works("a stream of PyTorch", lambda f: Stream(), classes=NUMBERED),
    Works("PyTorch items as mappings", lambda f: Named(), classes=NUMBERED),
    Works(
        "a stream of Hugging Face",
        lambda f: {name: part.to_iterable_dataset() for name, part in hugging_face().items()},
        (30, 1),
        splits=OFFICIAL,
    ),
    Works("a lazy frame of polars", lambda f: polars.LazyFrame(COLUMNS), features=ABC),
    Works(
        "csv with a byte order mark", lambda f: csv_of(frame(), f, index=False, encoding="utf-8-sig"), features=ABC
    ),
    Works("csv.gz", lambda f: frame().to_csv(f / "data.csv.gz", index=False) or f / "data.csv.gz", features=ABC),
    Works(
        "jsonl",
        lambda f: frame().to_json(f / "d.jsonl", orient="records", lines=True) or f / "d.jsonl",
        features=ABC,
    ),
    Works("json of rows", lambda f: frame().to_json(f / "d.json", orient="records") or f / "d.json", features=ABC),
    Works("json as pandas writes it", lambda f: frame().to_json(f / "d.json") or f / "d.json", features=ABC),
    Works("feather", lambda f: frame().to_feather(f / "d.feather") or f / "d.feather", features=ABC),
    Works(
        "target instead of label",
        lambda f: csv_of(frame().rename(columns={"label": "Target"}), f, index=False),
        features=ABC,
    ),
    Works(
        "two columns that may be labels",
        lambda f: frame(target=Y % 2),
        (30, 4),
        codes=("second_label",),
        features=(*ABC, "target"),
    ),
    Works(
        "ids with zeros in front",
        lambda f: csv(f, "ID,a,label\n" + "\n".join(f"{k:03d},{X[k, 0]},{NAMES[Y[k]]}" for k in range(30))),
        (30, 1),
        features=("a",),
    ),
    Works(
        "U+2028 and a line break inside a cell",
        lambda f: csv_of(frame(note=["one\u2028two\nthree", "b"] * 15), f, index=False),
        (30, 5),
    ),
    Works("a long cell", lambda f: csv_of(frame(note=["y" * 200_000] + ["n"] * 29), f, index=False), (30, 5)),
    Works(
        "train.csv beside test.csv",
        lambda f: (
            (frame()[:20].to_csv(f / "train.csv", index=False), frame()[20:].to_csv(f / "test.csv", index=False))
            and f
        ),
        splits=OFFICIAL,
        features=ABC,
    ),
    Works(
        "shards of Hugging Face",
        lambda f: (
            [
                frame()[i : i + 10].to_parquet(f / n, index=False)
                for i, n in (
                    (0, "train-00000-of-00002.parquet"),
                    (10, "train-00001-of-00002.parquet"),
                    (20, "test-00000-of-00001.parquet"),
                )
            ]
            and f
        ),
        splits=OFFICIAL,
        features=ABC,
    ),
    Works(
        "a split column",
        lambda f: frame(fold=["train"] * 20 + ["Test"] * 10),
        splits=OFFICIAL,
        features=ABC,
        options={"columns": {"split": "fold"}},
    ),
    Works("Hugging Face dataset", lambda f: hugging_face(None), (30, 1)),
    Works("Hugging Face splits", lambda f: hugging_face(), (30, 1), splits=OFFICIAL),
    Works(
        "Hugging Face train and validation",
        lambda f: hugging_face(("train", "validation")),
        (30, 1),
        splits=OFFICIAL,
    ),
    Works("Hugging Face images", lambda f: hugging_face_images(), (30, 8, 9, 3)),
    Works("PyTorch dataset", lambda f: Items(torch.tensor(X), Y)),
    Works("PyTorch images", lambda f: Items(torch.tensor(COLOUR).permute(0, 3, 1, 2), Y), (30, 8, 9, 3)),
    Works(
        "PyTorch tensors",
        lambda f: torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y)),
        classes=NUMBERED,
    ),
    Works("PyTorch loader", lambda f: torch.utils.data.DataLoader(Items(X, Y), batch_size=4)),
    Works("scikit-learn Bunch", lambda f: bunch("iris"), (150, 4), ("setosa", "versicolor", "virginica")),
    Works("scikit-learn images", lambda f: bunch("digits"), (1797, 8, 8), tuple("0123456789")),
    Works("image folder", lambda f: picture_folder(f), (6, 8, 9, 3)),
    Works(
        "images of several sizes", lambda f: picture_folder(f, ((8, 9), (12, 10))), (6, 9, 9, 3), codes=("resized",)
    ),
    Works("images resized", lambda f: picture_folder(f, ((8, 9), (12, 10))), (6, 5, 5, 3), options={"resize": 5}),
    Works("jpeg folder", lambda f: picture_folder(f, ending="jpg"), (6, 8, 9, 3)),
    Works(
        "image folder with a README",
        lambda f: csv(picture_folder(f), "how", "README.md").parent,
        (6, 8, 9, 3),
        codes=("ignored_files",),
    ),
    Works(
        "image folder with what a file manager leaves",
        lambda f: csv(picture_folder(f), "x", ".DS_Store").parent,
        (6, 8, 9, 3),
    ),
    Works(
        "keras' ((x, y), (x, y))", lambda f: ((X[:20], Y[:20]), (X[20:], Y[20:])), classes=NUMBERED, splits=OFFICIAL
    ),
    Works("a mapping of columns", lambda f: {key: list(values) for key, values in COLUMNS.items()}, features=ABC),
    Works("a list of rows", lambda f: frame().to_dict("records"), features=ABC),
    Works("two frames", lambda f: (frame()[:20], frame()[20:]), splits=OFFICIAL, features=ABC),
    Works("a mapping of Hugging Face datasets", lambda f: dict(hugging_face()), (30, 1), splits=OFFICIAL),
    Works("the only column of classes", lambda f: hugging_face(None).rename_column("label", "kind"), (30, 1)),
    Works(
        "a PyTorch subset", lambda f: torch.utils.data.Subset(Items(np.tile(X, (2, 1)), np.tile(Y, 2)), range(30))
    ),
    Works(
        "class numbers as column names",
        lambda f: pandas.DataFrame(np.column_stack([X, Y])),
        classes=NUMBERED,
        options={"label": 3},
    ),
    Works("npz of embeddings", lambda f: npz(f, embeddings=X, labels=Y, target_names=NAMES)),
    Works(
        "other names for folders",
        lambda f: picture_folder(f),
        (6, 8, 9, 3),
        ("x", "y", "z"),
        options={"class_names": "x,y,z"},
    ),
    Works(
        "reset_index",
        lambda f: csv_of(frame().reset_index(), f, index=False),
        features=ABC,
        codes=("index_column",),
    ),
    Works(
        "read twice with the index",
        lambda f: csv_of(frame(**{"Unnamed: 0.1": range(30)}), f, index=False),
        features=ABC,
        codes=("index_column",),
    ),
    Works("spaces after commas", lambda f: csv(f, SPACED), (30, 1), features=("a",), options={"label": "kind"}),
    Works(
        "the sep= of Excel",
        lambda f: csv(f, "sep=;\r\n" + SPACED.replace(", ", ";")),
        (30, 1),
        features=("a",),
        options={"label": "kind"},
    ),
    Works(
        "a comma at the end of lines",
        lambda f: csv(f, SPACED.replace("\n", ",\n")),
        (30, 1),
        features=("a",),
        options={"label": "kind"},
    ),
    Works("decimal commas below line 20", lambda f: csv(f, LATE_COMMAS), (30, 1), features=("a",)),
    Works("wavelengths as names", lambda f: frame().rename(columns={"a": "400.5", "b": "401.0", "c": "401.5"})),
    Works("-999 for missing", lambda f: frame(age=[-999, 40, 50] * 10), (30, 4), codes=("missing_code",)),
    Works(
        "dashes for missing",
        lambda f: csv_of(frame(age=["-", "40.5", "41"] * 10), f, index=False),
        (30, 5),
        features=(*ABC, "age", "age is missing"),
        codes=("missing_word",),
    ),
    Works(
        "question marks for missing in a frame",
        lambda f: frame(age=["?", "40", "41"] * 10, town=["-", "NA", "Ulm"] * 10),
        (30, 7),
        features=(*ABC, "age", "age is missing", "town=Ulm", "town=(missing)"),
        codes=("missing_word",),
    ),
    Works(
        "percentages as text", lambda f: frame(rate=["5%", "7%", "8.5%"] * 10), (30, 6), codes=("numbers_as_text",)
    ),
    Works(
        "a split under another name",
        lambda f: frame(set=["train"] * 20 + ["test"] * 10),
        (30, 5),
        codes=("split_column",),
    ),
    Works("train and val in a column", lambda f: frame(split=["train"] * 20 + ["val"] * 10), splits=OFFICIAL),
    Works(
        "classes in two spellings",
        lambda f: (X, SPELT),
        classes=("CAT", "cat", "dog", "owl"),
        codes=("similar_classes",),
    ),
    Works("a column without values", lambda f: frame(empty=np.nan), (30, 5), codes=("constant",)),
    Works("class names from a file", lambda f: npz(f, x=X, y=Y), options={"class_names": "NAMES"}),
    Works("a name of one's own", lambda f: npz(f, x=X, y=Y), classes=NUMBERED, options={"name": "mine"}),
]


@pytest.mark.parametrize("case", WORKS, ids=lambda case: case.name)
def test_works(case, tmp_path):
    source = case.build(tmp_path)
    options = dict(case.options)
    if options.get("class_names") == "NAMES":
        (tmp_path / "names.txt").write_text("\n".join(NAMES))
        options["class_names"] = tmp_path / "names.txt"
    dataset = Dataset.open(source, **options)
    assert dataset.x.shape == case.shape
    assert np.isfinite(dataset.x).all()
    assert dataset.class_names == case.classes
    assert {warning.code for warning in dataset.warnings} == set(case.codes)
    if case.features is not None:
        assert dataset.feature_names == case.features
    counts = (
        {} if dataset.split is None else {name: int((dataset.split == name).sum()) for name in set(dataset.split)}
    )
    assert counts == case.splits
    assert len(set(dataset.ids.tolist())) == len(dataset)
    assert all(len(column) == len(dataset) for column in dataset.metadata.values())
    assert "row" in dataset.metadata
    if case.classes:
        names = np.array(dataset.class_names)[dataset.labels]
        if (
            len(dataset) == 30
            and case.classes == tuple(NAMES)
            and case.name
            not in (
                "shuffled pandas frame",
                "parquet of a shuffled frame",
            )
        ):
            assert names.tolist() == NAMES[Y].tolist()
    if "name" in options:
        assert dataset.name == "mine"


def zip_with(folder, name="data.npz", **changes):
    """An npz file whose member was written in another way."""
    buffer = io.BytesIO()
    np.save(buffer, X)
    path = folder / name
    with zipfile.ZipFile(path, "w", changes.get("compression", zipfile.ZIP_DEFLATED)) as archive:
        archive.writestr("x.npy", changes.get("content", buffer.getvalue()))
    if changes.get("encrypted"):
        content = bytearray(path.read_bytes())
        for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            content[content.index(mark) + offset] |= 1
        path.write_bytes(bytes(content))
    return path


def forged_header(shape):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


@dataclass(frozen=True)
class Refused:
    name: str
    build: Any
    named: str
    options: dict[str, Any] = field(default_factory=dict)


REFUSED = [
    Refused(
        "days or months first, as a time",
        lambda f: frame(day=[f"{1 + k % 9}/{1 + k % 7}/2020" for k in range(30)]),
        "day/month.*month/day",
        {"columns": {"time": "day"}},
    ),
    Refused("a frame of objects", lambda f: frame(z=[object()] * 30), "frame|column"),
    Refused("a series", lambda f: frame()["a"], "x must"),
    Refused("a frame and too few labels", lambda f: (frame()[list(ABC)], Y[:5]), "y must"),
    Refused("labels in another order", lambda f: (frame()[list(ABC)], frame()["label"][::-1]), "y has the index"),
    Refused("train_test_split's order", lambda f: (X[:20], X[20:], Y[:20], Y[20:]), "x_train, y_train"),
    Refused("masked x", lambda f: (np.ma.masked_greater(X, 1), Y), "x must"),
    Refused("masked y", lambda f: (X, np.ma.masked_equal(Y, 1)), "y must"),
    Refused("NA for a label", lambda f: (X, np.where(Y == 1, "NA", NAMES[Y])), "y is 'NA' in row 1"),
    Refused("a quantity to predict", lambda f: (np.ones((400, 2)), np.arange(400) * 3 + 25), "y has 400"),
    Refused("one-hot labels of PyTorch", lambda f: Items(X, np.eye(3)[Y]), "label of item 0"),
    Refused("three tensors", lambda f: torch.utils.data.TensorDataset(*[torch.tensor(X)] * 3), "item 0"),
    Refused("UCI's iris without a header", lambda f: csv_of(frame(), f, index=False, header=False), "header"),
    Refused(
        "text first, no header", lambda f: csv_of(frame()[["label", "a"]], f, index=False, header=False), "header"
    ),
    Refused("a quote that is not closed", lambda f: csv(f, 'a,label\n1,cat\n2,"dog\n3,cat\n'), "quote"),
    Refused("columns between spaces", lambda f: csv_of(frame(), f, index=False, sep=" "), "commas"),
    Refused("a line above the header", lambda f: csv(f, "made in 2026\n" + SPACED), "first one"),
    Refused("class names in a mapping", lambda f: (X, Y), "class_names", {"class_names": {0: "a", 1: "b", 2: "c"}}),
    Refused(
        "names in another order, misspelt",
        lambda f: picture_folder(f),
        "class_names",
        {"class_names": "dog,cat,owll"},
    ),
    Refused("names of rows", lambda f: frame()[["label"]].assign(key=[f"row{k}" for k in range(30)]), "features"),
    Refused(
        "a class folder without images",
        lambda f: (picture_folder(f) / "ox").mkdir() or f / "pictures",
        "ox: has no images",
    ),
    Refused("a pickle", lambda f: csv(f, "x", "data.pkl"), "never loaded"),
    Refused("text called xlsx", lambda f: csv(f, "x", "data.xlsx"), "CSV"),
    Refused("nothing", lambda f: None, "dataset"),
    Refused("a number", lambda f: 7, "dataset"),
    Refused("three arrays", lambda f: (X, Y, X), "dataset"),
    Refused("bytes", lambda f: b"data.npz", "dataset"),
    Refused("a misspelt name", lambda f: "minst", "minst"),
    Refused("a path of 5,000 characters", lambda f: "x" * 5000, "dataset"),
    Refused("a null character", lambda f: "a\0b.npz", "dataset"),
    Refused("an address", lambda f: "https://example.org/data.csv", "dataset"),
    Refused("an empty folder", lambda f: f, "CLASS"),
    Refused("too few labels", lambda f: (X, Y[:29]), "y must"),
    Refused("one-hot labels", lambda f: (X, np.eye(3)[Y]), "y must"),
    Refused("numbers to predict", lambda f: (X, X[:, 0]), "y must"),
    Refused("labels with NaN", lambda f: (X, np.where(Y == 1, np.nan, Y)), "y has no label in row 1"),
    Refused("labels with None", lambda f: (X, [None, *NAMES[Y][1:]]), "y must"),
    Refused("labels with -1 for unknown", lambda f: (X, Y - 1), "y must"),
    Refused("labels with a gap", lambda f: (X, Y * 2), "y must"),
    Refused("NaN in x", lambda f: (np.where(X > 2, np.nan, X) * np.nan, Y), "x must"),
    Refused("a large sparse matrix", lambda f: (sparse.csr_matrix((30, 10**6)), Y), "x is a sparse.*texts"),
    Refused(
        "a sparse matrix in a file",
        lambda f: sparse.save_npz(f / "x.npz", sparse.csr_matrix(X)) or f / "x.npz",
        "sparse matrix",
    ),
    Refused("ragged lists", lambda f: ([[1, 2], [3]], [0, 1]), "x must"),
    Refused("one feature as a vector", lambda f: (X[:, 0], Y), "x must"),
    Refused("other test shape", lambda f: (X, Y, X[:, :2], Y), "x_test"),
    Refused("test without labels", lambda f: (X, Y, X, None), "y_test"),
    Refused("too few class names", lambda f: (X, Y), "class_names", {"class_names": ["a", "b"]}),
    Refused("class names twice", lambda f: (X, Y), "class_names", {"class_names": ["a", "a", "b"]}),
    Refused("class names as a number", lambda f: (X, Y), "class_names", {"class_names": 3}),
    Refused("a label option for arrays", lambda f: (X, Y), "label", {"label": "a"}),
    Refused("a label option for npz", lambda f: npz(f, x=X, y=Y), "label", {"label": "y"}),
    Refused("resize for npz", lambda f: npz(f, x=GREY, y=Y), "resize", {"resize": 4}),
    Refused("an npz of predictions", lambda f: npz(f, probs=np.full((30, 3), 1 / 3), labels=Y), "probs"),
    Refused("an npz of x twice", lambda f: npz(f, x=X, data=X, y=Y), "data"),
    Refused("an npz of one split", lambda f: npz(f, x_train=X, y_train=Y), "x_test"),
    Refused(
        "pickled objects", lambda f: np.savez(f / "data.npz", x=np.array([[{}]]), y=[0]) or f / "data.npz", "x"
    ),
    Refused("an encrypted npz", lambda f: zip_with(f, encrypted=True), "data.npz"),
    Refused("an npz with lzma", lambda f: zip_with(f, compression=zipfile.ZIP_LZMA), "data.npz"),
    Refused("an npz with an absurd shape", lambda f: zip_with(f, content=forged_header((2**40, 3))), "x claims"),
    Refused("an npz bomb", lambda f: zip_with(f, content=forged_header((10**12,)) + bytes(10**6)), "data.npz"),
    Refused("text called npz", lambda f: csv(f, "x,y\n1,2\n", "data.npz"), "data.npz"),
    Refused("a table without a header", lambda f: csv(f, "1.5,2.5,0\n2.5,1.5,1\n"), "header"),
    Refused("a table with one line", lambda f: csv(f, "a,b,label\n"), "rows"),
    Refused("an empty file", lambda f: csv(f, ""), "rows"),
    Refused("rows of other lengths", lambda f: csv(f, "a,label\n1,0\n2\n"), "data.csv"),
    Refused("an unknown label column", lambda f: frame(), "label.*species", {"label": "species"}),
    Refused("an unknown column to drop", lambda f: frame(), "drop.*z", {"drop": ["z"]}),
    Refused("label and id the same", lambda f: frame(), "label", {"label": "label", "id": "label"}),
    Refused("ids twice", lambda f: frame(id=["x"] * 30), "id.*'x'"),
    Refused("no label at all", lambda f: frame(label=[None] * 30), "label.*row 0"),
    Refused("a frame and labels with a gap", lambda f: (frame()[list(ABC)], [None, *NAMES[Y][1:]]), "y"),
    Refused("a label of numbers with decimals", lambda f: frame(), "a must", {"label": "a"}),
    Refused(
        "a label with a value for each row",
        lambda f: pyarrow.table({"a": X[:, 0].repeat(10), "label": [f"n{i}" for i in range(300)]}),
        "label",
    ),
    Refused("an infinite number", lambda f: frame(z=np.inf), "z must"),
    Refused("a strange split", lambda f: frame(split=["a"] * 30), "split"),
    Refused("only train in the split", lambda f: frame(split=["train"] * 30), "split"),
    Refused(
        "lists of other lengths",
        lambda f: pyarrow.table({"features": [[1.0], [1.0, 2.0]], "label": [0, 1]}),
        "features",
    ),
    Refused("JSON nested too deeply", lambda f: csv(f, "[" * 100_000, "d.json"), "d.json"),
    Refused("JSON of a number", lambda f: csv(f, "5", "d.json"), "d.json"),
    Refused("JSON of lists", lambda f: csv(f, "[[1, 2], [3, 4]]", "d.json"), "row 0"),
    Refused("JSONL with a broken line", lambda f: csv(f, '{"a": 1}\n{"a": \n', "d.jsonl"), "line 2"),
    Refused(
        "test.csv without labels",
        lambda f: (
            (
                frame()[:20].to_csv(f / "train.csv", index=False),
                frame()[20:][list(ABC)].to_csv(f / "test.csv", index=False),
            )
            and f
        ),
        "label",
    ),
    Refused(
        "cut Parquet", lambda f: parquet_of(frame(), f).write_bytes(b"PAR1") and f / "data.parquet", "data.parquet"
    ),
    Refused(
        "cut gzip",
        lambda f: (f / "d.csv.gz").write_bytes(gzip.compress(b"a,label\n1,0\n")[:-9]) and f / "d.csv.gz",
        "d.csv.gz",
    ),
    Refused(
        "an image among the classes",
        lambda f: picture_folder(f).joinpath("x.png").write_bytes(png(GREY[0])) and f / "pictures",
        "x.png",
    ),
    Refused(
        "more broken images than others",
        lambda f: (
            [picture_folder(f).joinpath("cat", f"x{k}.png").write_bytes(b"no") for k in range(99)]
            and f / "pictures"
        ),
        "x0.png",
    ),
    Refused("PyTorch items without labels", lambda f: torch.utils.data.Subset(X, range(3)), "item 0"),
    Refused(
        "PyTorch images of several sizes",
        lambda f: Items([torch.zeros(3, 8, 8), torch.zeros(3, 9, 8)], [0, 1]),
        "item 1",
    ),
    Refused("Hugging Face with an unknown split", lambda f: hugging_face(("train", "extra")), "extra"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_refused(case, tmp_path):
    source = case.build(tmp_path)
    with pytest.raises(InputError, match=f"(?s){case.named}") as caught:
        Dataset.open(source, **case.options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_there_are_at_least_sixty():
    assert len(WORKS) + len(REFUSED) >= 60
    assert len({case.name for case in (*WORKS, *REFUSED)}) == len(WORKS) + len(REFUSED)
