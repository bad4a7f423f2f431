"""Predictions as people keep them: each form works with the right numbers, or is refused naming what to change."""

import json

import numpy as np
import pandas
import pytest
from sklearn.linear_model import LogisticRegression

from hardpan import Dataset, Predictions, confusion
from hardpan.bayes.floors.model_predictions import read_models
from hardpan.errors import InputError
from hardpan.predictions import import_file

N, C = 60, 3
NAMES = ("ant", "bee", "cat")
RNG = np.random.default_rng(0)
LABELS = np.arange(N) % C
PROBS = RNG.dirichlet(np.ones(C), size=N)
PROBS = 0.6 * PROBS + 0.4 * np.eye(C)[LABELS]
OTHER = 0.5 * RNG.dirichlet(np.ones(C), size=N) + 0.5 * np.eye(C)[LABELS]
LOGITS = np.log(PROBS) + 2.0
IDS = [f"image-{i}" for i in range(N)]
FRAME = pandas.DataFrame(PROBS, columns=["p0", "p1", "p2"])


def write(folder, kind):
    """Write one natural form; returns the path."""
    csv, npz = folder / "p.csv", folder / "p.npz"
    match kind:
        case "npy":
            np.save(folder / "p.npy", PROBS)
            return folder / "p.npy"
        case "npy float32":
            np.save(folder / "p.npy", PROBS.astype(np.float32))
            return folder / "p.npy"
        case "npy logits":
            np.save(folder / "p.npy", LOGITS)
            return folder / "p.npy"
        case "npz probs":
            np.savez(npz, probs=PROBS, labels=LABELS)
        case "npz logits":
            np.savez(npz, logits=LOGITS, y=LABELS)
        case "npz unnamed":
            np.savez(npz, PROBS)
        case "npz models key":
            np.savez(npz, probs=np.stack([PROBS, OTHER]), models=["forest", "linear"], labels=LABELS)
        case "npz hard":
            np.savez(npz, y_pred=PROBS.argmax(axis=1), y_true=LABELS)
        case "npz text labels":
            np.savez(npz, probs=PROBS, labels=np.array(NAMES)[LABELS], class_names=NAMES)
        case "csv":
            FRAME.to_csv(csv, index=False)
        case "csv numbers as names":
            pandas.DataFrame(PROBS).to_csv(csv, index=False)
        case "csv id and numbers":
            pandas.DataFrame(PROBS).assign(id=IDS, label=LABELS).to_csv(csv, index=False)
        case "csv id label":
            FRAME.assign(id=IDS, label=LABELS).to_csv(csv, index=False)
        case "csv class columns":
            pandas.DataFrame(PROBS, columns=NAMES).assign(label=np.array(NAMES)[LABELS]).to_csv(csv, index=False)
        case "csv prefixed columns":
            pandas.DataFrame(PROBS, columns=[f"prob_{name}" for name in NAMES]).assign(
                label=np.array(NAMES)[LABELS]
            ).to_csv(csv, index=False)
        case "csv models":
            frames = [pandas.DataFrame(p, columns=["p0", "p1", "p2"]).assign(id=IDS) for p in (PROBS, OTHER)]
            pandas.concat([frames[0].assign(model="forest"), frames[1].assign(model="linear")]).to_csv(
                csv, index=False
            )
        case "tsv":
            FRAME.to_csv(folder / "p.tsv", index=False, sep="\t")
            return folder / "p.tsv"
        case "csv semicolons":
            FRAME.assign(id=IDS).to_csv(csv, index=False, sep=";")
        case "csv decimal commas":
            FRAME.to_csv(csv, index=False, sep=";", decimal=",")
        case "csv.gz":
            FRAME.to_csv(folder / "p.csv.gz", index=False)
            return folder / "p.csv.gz"
        case "jsonl":
            FRAME.assign(id=IDS, label=LABELS).to_json(folder / "p.jsonl", orient="records", lines=True)
            return folder / "p.jsonl"
        case "jsonl class columns":
            table = pandas.DataFrame(PROBS, columns=NAMES)
            table.to_json(folder / "p.jsonl", orient="records", lines=True)
            return folder / "p.jsonl"
        case "jsonl by class":
            rows = [
                {"id": key, "probs": dict(zip(NAMES, p.tolist(), strict=True))}
                for key, p in zip(IDS, PROBS, strict=True)
            ]
            (folder / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
            return folder / "p.jsonl"
        case "jsonl lists and classes":
            lists = pandas.DataFrame({"probs": PROBS.tolist(), "prediction": PROBS.argmax(axis=1)})
            lists.to_json(folder / "p.jsonl", orient="records", lines=True, double_precision=15)
            return folder / "p.jsonl"
        case "jsonl lists" | "json lists":
            lists = pandas.DataFrame({"id": IDS, "probs": PROBS.tolist()})
            path = folder / ("p." + kind.split()[0])
            lists.to_json(path, orient="records", lines=path.suffix == ".jsonl", double_precision=15)
            return path
        case "parquet":
            FRAME.assign(id=IDS).to_parquet(folder / "p.parquet")
            return folder / "p.parquet"
    return csv if csv.exists() else npz


@pytest.mark.parametrize(
    "kind",
    [
        "npy",
        "npy float32",
        "npy logits",
        "npz probs",
        "npz logits",
        "npz unnamed",
        "npz text labels",
        "csv",
        "csv numbers as names",
        "csv id and numbers",
        "csv id label",
        "csv class columns",
        "csv prefixed columns",
        "tsv",
        "parquet",
        "csv semicolons",
        "csv decimal commas",
        "csv.gz",
        "jsonl",
        "jsonl class columns",
        "jsonl by class",
        "jsonl lists",
        "jsonl lists and classes",
        "json lists",
    ],
)
def test_one_model_opens_with_its_numbers(tmp_path, kind):
    found = Predictions.open(write(tmp_path, kind))
    assert (found.seeds, found.epochs, len(found), found.n_classes) == ((0,), (0,), N, C)
    assert np.allclose(found.final_probs(), PROBS, atol=1e-6)
    if found.labels is not None:
        assert np.array_equal(found.labels, LABELS)
    assert found.class_names in ((), NAMES)
    import_file(write(tmp_path, kind), tmp_path / "store", dtype="float32")
    assert np.allclose(Predictions.open(tmp_path / "store").final_probs(), PROBS, atol=1e-6)


@pytest.mark.parametrize("kind", ["npz models key", "csv models"])
def test_named_models_are_models_and_not_seeds(tmp_path, kind):
    found = Predictions.open(write(tmp_path, kind))
    assert found.named
    assert found.models == ("forest", "linear")
    models = found.by_model()
    assert np.allclose(models["linear"].final_probs(), OTHER, atol=1e-6)
    import_file(write(tmp_path, kind), tmp_path / "store", dtype="float32")
    stored = Predictions.open(tmp_path / "store")
    assert stored.models == ("forest", "linear")
    assert np.allclose(stored.by_model()["forest"].final_probs(), PROBS, atol=1e-6)
    assert stored.outcomes(LABELS).models == ("forest", "linear")


def test_hard_predictions_are_right_where_they_are_right(tmp_path):
    found = Predictions.open(write(tmp_path, "npz hard"))
    assert found.n_classes == C
    assert np.array_equal(found.outcomes().scores[0], (PROBS.argmax(axis=1) == LABELS).astype(float))


@pytest.mark.parametrize(
    "source",
    [
        PROBS,
        PROBS.tolist(),
        FRAME,
        {"forest": PROBS},
        Predictions.from_arrays(PROBS),
    ],
    ids=["array", "list", "frame", "mapping", "predictions"],
)
def test_objects_open_too(source):
    assert np.allclose(Predictions.open(source).final_probs(), PROBS)


def test_rounded_rows_and_percentages_are_normalized_on_request(tmp_path):
    for scale, digits in ((1.0, 2), (100.0, 1)):
        np.save(tmp_path / "r.npy", np.round(scale * PROBS, digits))
        with pytest.raises(InputError, match="normalize"):
            Predictions.open(tmp_path / "r.npy").final_probs()
        found = Predictions.open(tmp_path / "r.npy", normalize=True)
        assert np.allclose(found.final_probs(), PROBS, atol=0.02)
        assert np.allclose(found.final_probs().sum(axis=1), 1.0)


def mistakes(folder):
    FRAME.to_csv(folder / "index.csv")
    pandas.DataFrame(PROBS).to_csv(folder / "numbers-index.csv")
    FRAME.to_csv(folder / "headerless.csv", header=False, index=False)
    FRAME.assign(id=IDS).to_csv(
        folder / "headerless-ids.csv", header=False, index=False, columns=["id", "p0", "p1"]
    )
    FRAME.rename_axis("").reset_index().rename(columns={"index": "Unnamed: 0"}).to_csv(
        folder / "un.csv", index=False
    )
    FRAME.set_index(pandas.Index(IDS)).to_parquet(folder / "index.parquet")
    FRAME.assign(comment="x").to_csv(folder / "comment.csv", index=False)
    FRAME.assign(age=1.5).to_csv(folder / "extra.csv", index=False)
    FRAME.assign(label=np.array(NAMES)[LABELS]).to_csv(folder / "text.csv", index=False)
    pandas.DataFrame({"id": IDS, "prediction": LABELS}).to_csv(folder / "hard.csv", index=False)
    np.savez(folder / "dataset.npz", x=RNG.normal(size=(N, 8)), y=LABELS)
    np.savez(folder / "images.npz", x_train=np.zeros((9, 4, 4)), y_train=LABELS[:9], x_test=np.zeros((3, 4, 4)))
    np.savez(folder / "shapes.npz", a=PROBS, b=PROBS[:5])
    np.savez(folder / "text.npz", probs=PROBS, labels=np.array(NAMES)[LABELS])
    np.savez(folder / "objects.npz", probs=np.array([{}, 1], dtype=object))
    np.save(folder / "one.npy", PROBS[:, 0])
    np.save(folder / "nan.npy", np.where(np.arange(N)[:, None] == 4, np.nan, PROBS))
    (folder / "empty.csv").write_text("")
    (folder / "quote.csv").write_text('p0,p1,prediction\n0.5,0.5,0\n0.5,0.5,"0\n0.5,0.5,1\n')
    (folder / "answers.jsonl").write_text('{"question": "x", "answer": "y"}\n')
    (folder / "notes.txt").write_text("0.5 0.5")
    return folder


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("index.csv", "index=False"),
        ("un.csv", "index=False"),
        ("numbers-index.csv", "index=False"),
        ("index.parquet", "index=False"),
        ("headerless.csv", "header"),
        ("headerless-ids.csv", "header"),
        ("comment.csv", "comment"),
        ("extra.csv", "age"),
        ("text.csv", "class_names"),
        ("hard.csv", "Outcomes.open"),
        ("text.npz", "class_names"),
        ("dataset.npz", "x (60, 8)"),
        ("images.npz", "x_train"),
        ("shapes.npz", "a (60, 3)"),
        ("objects.npz", "objects.npz"),
        ("one.npy", "shape"),
        ("nan.npy", "row-0000004"),
        ("empty.csv", "empty.csv"),
        ("quote.csv", "quote"),
        ("answers.jsonl", "'probabilities' of lists, columns p0, p1"),
        ("notes.txt", "notes.txt"),
        ("missing.npz", "missing.npz"),
        ("x" * 5000 + ".csv", "xxx"),
        ("x" * 5000 + ".npz", "xxx"),
    ],
)
def test_mistakes_are_refused_with_the_remedy(tmp_path, file, named):
    folder = mistakes(tmp_path)
    with pytest.raises(InputError) as refused:
        Predictions.open(folder / file).final_probs()
    assert named in str(refused.value)
    with pytest.raises(InputError):
        import_file(folder / file, folder / "store")
    assert not (folder / "store").exists()


def test_text_classes_are_given_by_name(tmp_path):
    folder = mistakes(tmp_path)
    assert np.array_equal(Predictions.open(folder / "text.csv", class_names=NAMES).labels, LABELS)
    import_file(folder / "text.npz", folder / "store", class_names=NAMES)
    assert np.array_equal(Predictions.open(folder / "store").labels, LABELS)


def test_a_second_model_needs_a_number_or_a_name(tmp_path):
    for name, probs in (("a", PROBS), ("b", OTHER)):
        pandas.DataFrame(probs, columns=["p0", "p1", "p2"]).to_csv(tmp_path / f"{name}.csv", index=False)
    import_file(tmp_path / "a.csv", tmp_path / "store")
    with pytest.raises(InputError, match="--seeds"):
        import_file(tmp_path / "b.csv", tmp_path / "store")
    import_file(tmp_path / "b.csv", tmp_path / "store", seeds=[1])
    assert Predictions.open(tmp_path / "store").seeds == (0, 1)
    for name in ("a", "b"):
        import_file(tmp_path / f"{name}.csv", tmp_path / "named", model=f"model {name}")
    named = Predictions.open(tmp_path / "named")
    assert named.models == ("model a", "model b")
    assert np.allclose(named.final_probs(1), OTHER, atol=1e-3)


NAMED = Dataset.from_arrays(RNG.normal(size=(N, 4)), np.array(NAMES)[LABELS], name="named")


@pytest.mark.parametrize(
    ("source", "classes"),
    [
        (pandas.DataFrame(PROBS[:, [2, 0, 1]], columns=["cat", "ant", "bee"]), NAMES),
        (Predictions.from_arrays(PROBS[:, ::-1], class_names=NAMES[::-1], labels=2 - LABELS), NAMES),
        (pandas.DataFrame(PROBS, columns=["p0", "p1", "p2"]), NAMES),
        (Predictions.from_arrays(PROBS, class_names=["0", "1", "2"]), ("0", "1", "2")),
    ],
    ids=["frame", "array with labels", "numbers", "numbers as names"],
)
def test_classes_are_joined_by_name(source, classes):
    aligned = Predictions.open(source).align(NAMED, by_order=True)
    assert np.allclose(aligned.final_probs(), PROBS)
    assert aligned.class_names == classes
    assert np.array_equal(aligned.labels, LABELS)
    assert np.allclose(aligned.select(np.arange(0, N, 7)).final_probs(), PROBS[::7])


def test_classes_in_another_order_give_the_same_label_issues():
    data = Dataset.from_arrays(RNG.normal(size=(N, 4)), np.array(NAMES)[(LABELS + (np.arange(N) < 6)) % C])
    found = [
        confusion.label_issues(Predictions.from_arrays(p, class_names=names).align(data, by_order=True))
        for p, names in ((PROBS, NAMES), (PROBS[:, [2, 0, 1]], ("cat", "ant", "bee")))
    ]
    assert np.array_equal(found[0].suggested, found[1].suggested)
    assert np.allclose(found[0].probability, found[1].probability)


def test_the_audit_and_align_agree_on_permuted_columns():
    rng = np.random.default_rng(1)
    labels = np.arange(2000) % 10
    data = Dataset.from_arrays(rng.normal(size=(2000, 2)), labels)
    good = 0.3 * rng.dirichlet(np.ones(10), size=2000) + 0.7 * np.eye(10)[labels]
    weak = 0.95 * rng.dirichlet(np.ones(10), size=2000) + 0.05 * np.eye(10)[labels]
    mixed = 0.95 * rng.dirichlet(np.ones(10), size=2000) + 0.05 * np.eye(10)[rng.permutation(labels)]
    swapped, rolled = [1, 0, *range(2, 10)], [*range(1, 10), 0]
    for probs, order in ((good, swapped), (good, rolled), (good, None), (weak, None), (mixed, None)):
        given = probs if order is None else probs[:, np.argsort(order)]
        (model,) = read_models({"m": given}, data, labels, data.splits())
        assert model.permutation == (None if order is None else tuple(order))
        if order is None:
            Predictions.open(given).align(data, by_order=True)
            continue
        assert np.allclose(model.probs[:, list(model.permutation)], probs)
        with pytest.raises(InputError, match="check=False"):
            Predictions.open(given).align(data, by_order=True)


def test_other_classes_are_refused():
    other = pandas.DataFrame(PROBS, columns=["x", "y0", "z"])
    with pytest.raises(InputError, match=r"ant\W+bee\W+cat"):
        Predictions.open(other).align(NAMED, by_order=True)


@pytest.mark.parametrize("extra", [{"row": np.arange(N)}, {"key": RNG.permutation(N)}, {"age": np.full(N, 30.5)}])
def test_a_column_that_is_no_class_is_refused(tmp_path, extra):
    table = pandas.DataFrame(PROBS, columns=NAMES).assign(**extra)
    table.to_csv(tmp_path / "p.csv", index=False)
    for source in (table, tmp_path / "p.csv"):
        with pytest.raises(InputError, match=next(iter(extra))):
            Predictions.open(source)


def test_one_hot_rows_are_hard_predictions():
    for dtype in (np.int64, np.uint8, bool):
        found = Predictions.open(np.eye(C, dtype=dtype)[LABELS])
        assert (len(found), found.n_classes) == (N, C)
        assert np.array_equal(found.final_probs().argmax(axis=1), LABELS)


def test_examples_that_sum_to_one_are_no_predictions(tmp_path):
    np.savez(tmp_path / "d.npz", x=PROBS, y=LABELS)
    with pytest.raises(InputError, match=r"\b60\W+3\b"):
        Predictions.open(tmp_path / "d.npz")


@pytest.mark.parametrize("labels", [LABELS + 1, 2 * (LABELS > 0) - 1, LABELS > 0, (LABELS + 1).astype(float)])
def test_estimators_know_classes_by_their_labels(labels):
    data = Dataset.from_arrays(DATA.x, labels)
    model = LogisticRegression().fit(DATA.x, labels)
    expected = (model.predict(DATA.x) == labels).mean()
    assert Predictions.from_estimator(model, data).outcomes().scores.mean() == expected
    assert Predictions.from_estimator(model.predict, data).outcomes().scores.mean() == expected
    assert Predictions.from_estimator(model, data, folds=3).outcomes().scores.mean() > 0.8
    if labels.max() > 2:  # fitted to two of the three classes
        some = labels < 3
        partly = Predictions.from_estimator(LogisticRegression().fit(DATA.x[some], labels[some]), data)
        assert np.all(partly.final_probs()[:, 2] == 0)
        assert partly.outcomes().scores[0][some].mean() > 0.8


def test_models_of_an_audit_are_whatever_predicts(tmp_path, monkeypatch):
    data = Dataset.from_arrays(DATA.x, np.array(NAMES)[LABELS])
    split = data.splits()
    model = LogisticRegression().fit(data.x, np.array(NAMES)[LABELS])
    np.save(tmp_path / "hard.npy", model.predict(data.x))
    (tmp_path / "kept_model.py").write_text("def predict(x):\n    return x[:, :3].argmax(axis=1)\n")
    monkeypatch.chdir(tmp_path)
    for source in (model, model.predict_proba, "kept_model:predict", "hard.npy", {"mine": model}):
        (found,) = read_models(source, data, LABELS, split, by_order=True)
        assert np.mean(found.probs.argmax(axis=1) == LABELS) > 0.8
        assert not found.held_out
    assert found.name == "mine"
    (crossed,) = read_models(model, data, LABELS, split, folds=3)
    assert crossed.held_out
    assert crossed.name == "LogisticRegression"


@pytest.mark.parametrize("source", [None, 3, object(), b"p.npy"])
def test_other_objects_are_refused_by_name(source):
    with pytest.raises(InputError, match="source"):
        Predictions.open(source)


DATA = Dataset.from_arrays(RNG.normal(size=(N, 4)) + 3 * np.eye(4)[LABELS], LABELS, ids=IDS, name="toy")


def test_estimators_functions_and_import_paths():
    model = LogisticRegression().fit(DATA.x, LABELS)
    seen = Predictions.from_estimator(model, DATA)
    assert np.allclose(seen.final_probs(), model.predict_proba(DATA.x), atol=1e-6)
    assert not seen.held_out
    assert not seen.held_out_rows.any()
    named = LogisticRegression().fit(DATA.x, np.array(["c", "a", "b"])[LABELS])  # columns in another order
    renamed = Dataset.from_arrays(DATA.x, np.array(["c", "a", "b"])[LABELS], ids=IDS, class_names=["c", "a", "b"])
    found = Predictions.from_estimator(named, renamed)
    assert np.allclose(found.final_probs()[:, [1, 2, 0]], named.predict_proba(DATA.x), atol=1e-6)
    crossed = Predictions.from_estimator(model, DATA, folds=5)
    assert crossed.held_out
    assert crossed.held_out_rows.all()
    assert crossed.outcomes().scores.mean() <= seen.outcomes().scores.mean()
    hard = Predictions.from_estimator(model.predict, DATA, held_out=True)
    assert np.array_equal(hard.outcomes().scores, seen.outcomes().scores)
    assert hard.held_out
    path = Predictions.from_estimator(f"{__name__}:uniform", DATA)
    assert np.allclose(path.final_probs(), 1 / C)


def uniform(x):
    return np.full((len(x), C), 1 / C)


def broken(x):
    raise RuntimeError("no weights")


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (3, {}),
        ("numpy", {}),
        ("nowhere:model", {}),
        (broken, {}),
        (lambda x: np.zeros(3), {}),
        (lambda x: np.full(len(x), 7), {}),
        (LogisticRegression(), {"folds": 1}),
        (LogisticRegression(), {"folds": 99}),
        (uniform, {"folds": 3}),
    ],
)
def test_models_that_cannot_be_used_are_refused(model, options):
    with pytest.raises(InputError, match=r"model|folds"):
        Predictions.from_estimator(model, DATA, **options)


def test_torch_modules_and_loaders():
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(4, C)
    x = torch.tensor(DATA.x, dtype=torch.float32)
    data = torch.utils.data.TensorDataset(x, torch.tensor(LABELS))
    found = Predictions.from_torch(module, torch.utils.data.DataLoader(data, batch_size=7))
    assert np.allclose(found.final_probs(), torch.softmax(module(x), dim=1).detach().numpy(), atol=1e-5)
    assert np.array_equal(found.labels, LABELS)
    assert module.training
    with pytest.raises(InputError, match="shuffle"):
        Predictions.from_torch(module, torch.utils.data.DataLoader(data, shuffle=True))
    with pytest.raises(InputError, match="module"):
        Predictions.from_torch(lambda x: x, [])
    with pytest.raises(InputError, match="loader"):
        Predictions.from_torch(module, data)
    for wrong in (torch.nn.Linear(3, C), module.double(), torch.nn.LSTM(4, C)):
        with pytest.raises(InputError, match="module"):
            Predictions.from_torch(wrong, torch.utils.data.DataLoader(data))


def test_scores_take_what_opens():
    expected = confusion.scores(PROBS).values
    assert np.allclose(confusion.scores(Predictions.open(FRAME)).values, expected)


def test_two_columns_for_a_role_are_refused_until_one_is_named(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("id,target,y_true,p0,p1\na,0,1,0.5,0.5\nb,1,1,0.2,0.8\n")
    with pytest.raises(InputError) as caught:
        Predictions.open(path)
    assert caught.value.argument == "label"
    with pytest.raises(InputError) as caught:
        Predictions.open(np.full((2, 2), 0.5), columns={"label": "y_true"})
    assert caught.value.argument == "columns"
