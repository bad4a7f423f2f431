"""Text and photographs with and without an encoder: error, wrong labels, copies, time, memory; Datalab beside it.

BENCH_MODALITIES names a folder. Each text set in it is a table, or a folder with train.csv and test.csv, with the
columns text and label; images are what ``Dataset.open`` reads. Text sets: CLINC150 (clinc/oos-eval,
data/data_full.json), Banking77 (PolyAI-LDN/task-specific-datasets, banking_data), AG News
(mhjabreel/CharCnn_Keras, data/ag_news_csv) and SMS spam (justmarkham/pycon-2016-tutorial, data/sms.tsv), all on
GitHub. Encoders: :mod:`bench._encoders`.

Of each set a random subset is used: BENCH_TRAIN (3,000) training and BENCH_TEST (1,000) test examples, at most. In
two further audits 10 % of the training labels are wrong: any other class, or the next class (class-dependent); in
the first one 5 % of the test examples are altered copies of training examples as well. Datalab gets the vectors
(pixels, TF-IDF directions, or those of the encoder) and out-of-fold probabilities of the same audit.

TABLE=texts and TABLE=images: the sets of one kind. TABLE=size: time and memory of an audit of made-up sentences, by
their number (BENCH_TEXTS=20000,100000,1000000).

TABLE=photographs: a network that is trained on pixels, as in an audit, beside a linear model on descriptors, on the
images of BENCH_PHOTOGRAPHS, a folder or npz of more than 64 pixels a side, such as the clothes of
alexeygrigorev/clothing-dataset-small (3,781 photographs, 10 classes; here resized to 128 pixels).
"""

from __future__ import annotations

import dataclasses
import os
import resource
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bench import harness

PEERS = ("cleanlab", "scikit-learn", "torch", "sentence-transformers")
CORES = WORKERS = 2
TRAIN, TEST = (
    int(os.environ.get(name, default)) for name, default in (("BENCH_TRAIN", 3000), ("BENCH_TEST", 1000))
)
BUDGET = float(os.environ.get("BENCH_BUDGET", "20"))  # seconds of each audit
WRONG, COPIES = 0.1, 0.05


def prepare(source: str, encoder: str) -> dict[str, Any]:
    """The subset, and the same with planted labels and copies."""
    from hardpan import Dataset

    data = Dataset.open(source)
    rng = np.random.default_rng(0)
    split = data.splits()
    train = np.sort(rng.permutation(np.concatenate([split.train, split.validation]))[:TRAIN])
    test = np.sort(rng.permutation(split.test)[:TEST])
    rows = np.concatenate([train, test])
    names = np.repeat(["train", "test"], [len(train), len(test)])
    clean = dataclasses.replace(data.select(rows), split=names, name=Path(source).stem)
    k, n = clean.n_classes, len(train)
    wrong = np.sort(rng.permutation(n)[: int(WRONG * n)])
    uniform, dependent = clean.labels.copy(), clean.labels.copy()
    uniform[wrong] = (uniform[wrong] + rng.integers(1, k, len(wrong))) % k
    dependent[wrong] = (dependent[wrong] + 1) % k
    copies = n + np.sort(rng.permutation(len(test))[: int(COPIES * len(test))])
    originals = rng.permutation(n)[: len(copies)]
    planted = _with_copies(dataclasses.replace(clean, labels=uniform), copies, originals)
    seconds = 0.0
    sets = {"clean": clean, "uniform": planted, "dependent": dataclasses.replace(clean, labels=dependent)}
    if encoder:
        begin = time.perf_counter()
        sets["clean"] = clean.encoded(encoder)
        seconds = time.perf_counter() - begin
        sets["uniform"] = planted.encoded(encoder)
        sets["dependent"] = dataclasses.replace(sets["dependent"], vectors=sets["clean"].vectors, encoder=encoder)
    return {"sets": sets, "wrong": wrong, "copies": copies, "encoding": seconds, "of": len(data)}


def _with_copies(data: Any, copies: Any, originals: Any) -> Any:
    """Test examples replaced by altered training examples, each in one way, the ways in turn."""
    labels = data.labels.copy()
    labels[copies] = data.labels[originals]
    if data.is_images:
        from hardpan.neighbors.image_copies import altered_copies

        altered: list[Any] = list(altered_copies(data.x[originals]).values())
        x = data.x.copy()
        for at, row in enumerate(copies):
            x[row] = altered[at % len(altered)][at].reshape(x.shape[1:]).astype(x.dtype)
        return dataclasses.replace(data, x=x, labels=labels)
    from hardpan.neighbors.text_copies import altered_texts

    edits = list(altered_texts([str(text) for text in data.texts[originals]]).values())
    texts = data.texts.copy()
    for at, row in enumerate(copies):
        texts[row] = edits[at % len(edits)][at]
    return dataclasses.replace(data, texts=texts, labels=labels)


def work(given: dict[str, Any]) -> dict[str, Any]:
    """Errors, F1 of wrong labels and copies that were found, by hardpan and by Datalab."""
    import hardpan
    from hardpan.auditing.near_copies import find_near_copies

    answer: dict[str, Any] = {"encoding": given["encoding"], "of": given["of"]}
    answer |= {name: int((given["sets"]["clean"].split == name).sum()) for name in ("train", "test")}
    for kind, data in given["sets"].items():
        begin = time.perf_counter()
        report = hardpan.audit(data, budget=BUDGET, flow="none")
        if kind == "clean":
            error = report.measures["best_error"]
            answer |= {"error": error.value, "low": error.low, "high": error.high}
            answer["seconds"] = time.perf_counter() - begin
            answer["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            continue
        evidence = report.evidence
        assert evidence is not None
        assert evidence.issues is not None
        assert evidence.inputs is not None
        train = np.flatnonzero(data.split == "train")
        answer[f"f1 {kind}"] = _f1(evidence.issues.row[np.isin(evidence.issues.row, train)], given["wrong"])
        probs = np.clip(evidence.out_of_fold[train], 1e-6, None)
        vectors = np.asarray(evidence.inputs.table.scaled, dtype=np.float32)
        begin = time.perf_counter()
        theirs, near = _datalab(data, train, probs / probs.sum(axis=1, keepdims=True), vectors)
        answer[f"datalab {kind}"] = _f1(theirs, given["wrong"])
        answer["datalab seconds"] = time.perf_counter() - begin
        if kind == "uniform":
            found = [rows for rows, _, _ in find_near_copies(evidence)]
            listed = np.unique(np.concatenate([*found, evidence.inputs.copied]))
            answer |= {"copies": len(given["copies"])}
            answer |= {"found": int(np.isin(given["copies"], listed).sum()), "listed": len(listed)}
            answer |= {"datalab found": int(np.isin(given["copies"], near).sum()), "datalab listed": len(near)}
    return answer


def _f1(listed: Any, wrong: Any) -> float:
    """Harmonic mean of precision and recall."""
    hits = int(np.isin(listed, wrong).sum())
    return 2 * hits / (len(listed) + len(wrong))


def _datalab(data: Any, train: Any, probs: Any, vectors: Any) -> tuple[Any, Any]:
    """Rows of train whose label Datalab doubts, and test rows that it takes for a near-copy of a training row."""
    from cleanlab import Datalab

    labels = Datalab({"label": data.labels[train]}, label_name="label", verbosity=0)
    labels.find_issues(pred_probs=probs, issue_types={"label": {}})
    doubted = train[labels.get_issues("label")["is_label_issue"].to_numpy()]
    whole = Datalab({"label": data.labels}, label_name="label", verbosity=0)
    whole.find_issues(features=vectors, issue_types={"near_duplicate": {}})
    issues = whole.get_issues("near_duplicate")
    of_test = np.flatnonzero((data.split == "test") & issues["is_near_duplicate_issue"].to_numpy())
    sets = issues["near_duplicate_sets"].tolist()
    return doubted, np.array([row for row in of_test if np.isin(sets[row], train).any()], dtype=int)


def _measured(job: tuple[Path, str]) -> dict[str, Any]:
    """What :func:`work` answers of a set and an encoder, in a process of its own."""
    found = harness.isolated(prepare, work, cores=1, source=str(job[0]), encoder=job[1])
    print(job[0].stem, job[1] and "encoded", found.output, flush=True)
    return dict(found.output)


def _is_texts(source: Path) -> bool:
    return source.suffix == ".csv" or (source / "train.csv").is_file()


def sets(of_texts: bool) -> dict[str, Any]:
    """All sets of one kind, without and with an encoder."""
    from bench._encoders import minilm

    folder = os.environ.get("BENCH_MODALITIES", "")
    if not folder:
        raise SystemExit("BENCH_MODALITIES must name a folder with the sets; bench/modalities.py says which")
    sources = [source for source in sorted(Path(folder).iterdir()) if _is_texts(source) == of_texts]
    encoder = str(minilm()) if of_texts else "bench._encoders:efficientnet"
    jobs = [(source, name) for source in sources for name in ("", encoder)]
    with ThreadPoolExecutor(WORKERS) as pool:  # of processes with one core each
        outputs = list(pool.map(_measured, jobs))
    rows = []
    for (source, encoder), out in zip(jobs, outputs, strict=True):
        plain, encoded = ("n-grams", "MiniLM") if of_texts else ("pixels", "EfficientNet-Lite0")
        rows.append(
            {
                "set": source.stem,
                "features": encoded if encoder else plain,
                "train": out["train"],
                "test": out["test"],
                "of": out["of"],
                "error %": 100 * out["error"],
                "95 %": f"{100 * out['low']:.1f}–{100 * out['high']:.1f}",
                "F1 uniform": out["f1 uniform"],
                "Datalab uniform": out["datalab uniform"],
                "F1 class-dependent": out["f1 dependent"],
                "Datalab class-dependent": out["datalab dependent"],
                "copies": out["copies"],
                "found": out["found"],
                "listed": out["listed"],
                "Datalab found": out["datalab found"],
                "Datalab listed": out["datalab listed"],
                "encoding s": out["encoding"] or None,
                "audit s": out["seconds"],
                "Datalab s": out["datalab seconds"],
                "peak MB": out["peak"],
            }
        )
    notes = [
        f"subsets of at most {TRAIN:,} training and {TEST:,} test examples; budget of each audit {BUDGET:g} s; "
        f"{WORKERS} processes of one core each at a time",
        "encoding s: vectors of the subset, 0 where they were in the cache; peak MB: after one audit",
        "F1 of training labels that are listed as unlike the prediction (hardpan) or as label issues (Datalab), "
        "both from the same out-of-fold probabilities",
        "copies: altered training examples among the test examples; found: how many of them are listed; natural "
        "near-copies are listed too",
    ]
    kind = "Texts" if of_texts else "Images"
    return harness.table(f"{kind} with and without an encoder", rows, seed=0, notes=notes)


def sentences(count: int) -> dict[str, Any]:
    """A table of made-up sentences of ten classes: 5 to 24 words by Zipf's law, every seventh of its class."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(20_000)])
    folder = Path(tempfile.mkdtemp())
    with (folder / "sentences.csv").open("w", encoding="utf-8") as stream:
        stream.write("text,label\n")
        for start in range(0, count, 50_000):
            labels = rng.integers(0, 10, min(50_000, count - start))
            lengths = rng.integers(5, 25, len(labels))
            chosen = np.minimum(rng.zipf(1.3, lengths.sum()) - 1, len(words) - 1)
            own = rng.random(len(chosen)) < 1 / 7
            chosen[own] = 10_000 + 30 * np.repeat(labels, lengths)[own] + rng.integers(0, 30, own.sum())
            for label, part in zip(labels, np.split(words[chosen], np.cumsum(lengths)[:-1]), strict=True):
                stream.write(f"{' '.join(part)},class {label}\n")
    return {"table": folder / "sentences.csv", "count": count}


def audit_sentences(given: dict[str, Any]) -> dict[str, Any]:
    """Audit them as the command does, with its default settings, and write the page."""
    import hardpan

    begin = time.process_time()
    report = hardpan.audit(given["table"], out=given["table"].parent / "audit")
    spent = time.process_time() - begin
    left_out = report.evidence.dropped if report.evidence else ()
    return {"error": report.measures["best_error"].value, "cpu": spent, "left out": ", ".join(left_out)}


def size() -> dict[str, Any]:
    """Time and memory of an audit by the number of texts."""
    rows = []
    for count in map(int, os.environ.get("BENCH_TEXTS", "20000,100000,1000000").split(",")):
        found = harness.isolated(sentences, audit_sentences, cores=CORES, count=count)
        peak = (found.before_bytes + found.extra_bytes) / 1e6
        print(count, found, flush=True)
        row = {"texts": count, "seconds": found.best, "processor s": found.output["cpu"], "peak MB": peak}
        row |= {"error %": 100 * found.output["error"], "left out": found.output["left out"] or None}
        if count <= 100_000:
            rows.append(row | {"what": "s"} | harness.against(found.best, at_most=300, unit="s"))
        rows.append(
            row | {"what": "MB"} | harness.against(peak, at_most=3000 if count <= 100_000 else 6000, unit="MB")
        )
    notes = [f"{CORES} cores, default settings, with the page; peak MB: resident memory of the whole process"]
    return harness.table("Audit of made-up sentences by their number", rows, seed=0, notes=notes)


def photographs() -> dict[str, Any]:
    """Test error and processor time of a network on pixels after each epoch, and of descriptors."""
    from hardpan import Dataset, engine
    from hardpan.auditing.networks import NetworkData, NetworkTask
    from hardpan.bayes.floors.classifiers import fit_classifier
    from hardpan.bayes.floors.inputs import split_inputs

    data = Dataset.open(os.environ["BENCH_PHOTOGRAPHS"], name="photographs")
    labels, split = data.require_labels(), data.splits()
    begin = time.process_time()
    inputs = split_inputs(data.with_descriptors(), labels, 0)
    parts = inputs.split.train, inputs.split.validation, inputs.test
    linear = fit_classifier("linear model", inputs.table, *parts, seconds=60.0)
    error = float((linear.probs.argmax(axis=1) != labels[inputs.test]).mean())
    shape = " × ".join(map(str, data.x.shape[1:]))
    known = {"train": len(split.train), "test": len(split.test), "images": shape}
    model = f"descriptors, {linear.settings}"
    rows = [{"model": model, **known, "error %": 100 * error, "processor s": time.process_time() - begin}]
    begin = time.process_time()
    images = NetworkData.of_images(data.x, labels, data.n_classes, split.train, flip=True)
    for epochs in (1, 3):
        task = NetworkTask(images, split.train, split.validation, split.test, 0.0, epochs, 1, 0, "cpu")
        begin = time.process_time()
        engine.run_epochs(task, 2 * epochs, monitor="validation_loss", patience=0)
        wrong = task.predicted().argmax(axis=1) != labels[split.test]
        name = f"network on pixels, {epochs} epoch{'s' * (epochs > 1)}"
        spent = time.process_time() - begin
        rows.append({"model": name, **known, "error %": 100 * float(wrong.mean()), "processor s": spent})
    note = "an audit of 180 s on two cores has about 60 processor seconds for each of its three networks"
    return harness.table("Photographs without an encoder", rows, seed=0, notes=[note])


TABLES = {"texts": lambda: sets(True), "images": lambda: sets(False), "photographs": photographs, "size": size}


def run() -> list[dict[str, Any]]:
    """Both kinds of sets, and the sizes."""
    return [sets(True), sets(False), size()]
