"""The explorer's answers to requests, good ones and bad ones."""

import contextlib
import datetime
import errno
import io
import json
import os
import re
import resource
import shutil
import subprocess
import sys

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from starlette.testclient import TestClient

from hardpan import files
from hardpan.auditing import example_table
from hardpan.auditing.example_table import Examples
from hardpan.data.dataset import Dataset
from hardpan.data.opening import open_corrected
from hardpan.errors import InputError
from hardpan.web.explorer import create_app
from hardpan.web.explorer.marks import Marks
from hardpan.web.explorer.review import ReviewSite
from hardpan.web.explorer.site import PAGE_POLICY, SPRITE_COLUMNS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    dataset = Dataset.open("digits")
    parts = dataset.splits()
    confusion = np.linspace(0, 1, len(dataset))
    table = example_table.join_example_table(
        dataset,
        {"train": parts.train, "validation": parts.validation, "test": parts.test},
        {"confusion": confusion},
    )
    folder = tmp_path_factory.mktemp("digits")
    files.write_together(folder, example_table.example_table_files(table, dataset))
    return folder


@pytest.fixture(scope="module")
def client(digits):
    return TestClient(
        create_app(example_table.read_example_table(digits), title="digits"), base_url="http://127.0.0.1"
    )


def test_rows_come_a_page_at_a_time(client):
    asked = {"filters": [{"column": "split", "operation": "any_of", "value": ["test"]}], "sort": "confusion"}
    answer = client.post("/api/rows", json=asked | {"descending": True, "offset": 10, "limit": 5}).json()
    dataset = Dataset.open("digits")
    test = dataset.splits().test
    assert answer["total"] == len(test)
    assert [row["id"] for row in answer["rows"]] == [str(dataset.ids[row]) for row in test[::-1][10:15]]


def test_a_sprite_holds_the_pictures_asked_for(client):
    rows = [5, 900, *range(SPRITE_COLUMNS)]
    answer = client.get("/api/sprite", params={"rows": ",".join(map(str, rows))})
    sheet = np.asarray(Image.open(io.BytesIO(answer.content)))
    pictures = example_table.example_thumbnails(Dataset.open("digits"))
    assert np.array_equal(sheet[:8, 8:16], pictures[900])
    assert np.array_equal(sheet[8:16, :8], pictures[rows[SPRITE_COLUMNS]])


def chosen(answer):
    return files.from_json(json.loads(answer.content)).ids.tolist()


def test_a_subset_names_the_ids(client):
    ids = [str(name) for name in Dataset.open("digits").ids[[3, 7]]]
    answer = client.post("/api/subset", json={"rows": [3, 7]})
    assert chosen(answer) == ids
    assert "attachment" in answer.headers["content-disposition"]
    filters = [{"column": "id", "operation": "contains", "value": ids[0]}]
    assert chosen(client.post("/api/subset", json={"filters": filters})) == ids[:1]


HUGE, LONE = 10**400, "\ud800"


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/api/rows", {"sort": "nothing"}, "sort"),
        ("/api/rows", {"sort": LONE}, "sort"),
        ("/api/rows", {"filters": 3}, "filters"),
        ("/api/rows", {"filters": [{"column": "confusion", "operation": "at_least", "value": HUGE}]}, "confusion"),
        ("/api/rows", {"filters": [{"column": "id", "operation": "contains", "value": LONE}]}, "id"),
        ("/api/rows", {"filters": [{"column": "label", "operation": "any_of", "value": [LONE]}]}, "label"),
        ("/api/rows", {"offset": -1}, "offset"),
        ("/api/rows", {"offset": HUGE}, "offset"),
        ("/api/rows", {"limit": 10**9}, "limit"),
        ("/api/rows", {"ids": [LONE]}, "ids"),
        ("/api/histogram", {"column": "nothing"}, "column"),
        ("/api/histogram", {"column": "id"}, "column"),
        ("/api/disagreements", {"first": "a", "second": LONE}, "first"),
        ("/api/marks", {"rows": [0], "label": LONE}, "label"),
        ("/api/marks", {"rows": [0], "label": "no such class"}, "label"),
        ("/api/marks", {"rows": [0], "add": "a;b"}, "tag"),
        ("/api/marks", {"rows": [0], "add": "a\x07b"}, "tag"),
        ("/api/marks", {"rows": [0], "add": "a\ufffe"}, "tag"),
        ("/api/marks", {"rows": [HUGE], "add": "t"}, "rows"),
        ("/api/marks", {"rows": []}, "rows"),
        ("/api/subset", {"rows": []}, "rows"),
        ("/api/subset", {"rows": [HUGE]}, "rows"),
        ("/api/subset", {"rows": "all"}, "rows"),
    ],
)
def test_a_bad_request_is_refused_and_names_the_argument(client, path, body, named):
    answer = client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert named in answer.json()["error"]


STRANGE = {
    "times": pa.array([datetime.datetime(2020, 1, 1 + i % 3) for i in range(6)]),
    "bytes": pa.array([b"\xff", b"a", None] * 2),
    "lists": pa.array([[1, 2], [], None] * 2),
    "structs": pa.array([{"a": 1}, {"a": None}, None] * 2),
    "maps": pa.array([[("a", 1)]] * 6, pa.map_(pa.string(), pa.int64())),
    "constant 1e308": pa.array([1e308] * 6),
    "±1e308": pa.array([1e308, -1e308] * 3),
    "uint64": pa.array([2**64 - 1] * 6, pa.uint64()),
    "categories of numbers": pa.array([1, 2, None] * 2).dictionary_encode(),
    "categories of bytes": pa.array([b"\xff", b"a", None] * 2).dictionary_encode(),
}


@pytest.mark.parametrize("name", ["id", "label", "confusion", "correct: m", "path"])
@pytest.mark.parametrize("kind", STRANGE)
def test_a_table_with_columns_of_other_types_is_shown(tmp_path, kind, name):
    table = pa.table({"id": list("abcdef"), "label": ["x", "y"] * 3} | {name: STRANGE[kind]})
    pq.write_table(table, tmp_path / "examples.parquet")
    site = TestClient(
        create_app(example_table.read_example_table(tmp_path), folder=tmp_path), base_url="http://127.0.0.1"
    )
    assert len(site.post("/api/rows", json={}).json()["rows"]) == 6
    column = next(item for item in site.get("/api/table").json()["columns"] if item["name"] == name)
    operation, value = {"number": ("at_least", 0), "choice": ("any_of", ["1"]), "text": ("contains", "1")}[
        column["kind"]
    ]
    for body in (
        {"sort": name, "descending": True},
        {"filters": [{"column": name, "operation": operation, "value": value}]},
        {"ids": ["a", "1"]},
    ):
        assert site.post("/api/rows", json=body).status_code == 200
    for path, body in {
        "/api/histogram": {"column": name},
        "/api/disagreements": {"first": "m", "second": "m"},
        "/api/subset": {},
        "/api/marks": {"rows": [0], "add": "seen"},
    }.items():
        assert site.post(path, json=body).status_code in (200, 400)


@pytest.mark.parametrize("value", [{"a": 1}, [{}], [[]], None])
@pytest.mark.parametrize("operation", ["at_least", "any_of", "contains", "is"])
def test_a_filter_with_an_object_is_refused(client, operation, value):
    for column in ("confusion", "label", "id"):
        body = {"filters": [{"column": column, "operation": operation, "value": value}]}
        assert client.post("/api/rows", json=body).status_code == 400


def test_marks_are_saved_to_a_csv_that_corrects_the_dataset(digits):
    app = create_app(example_table.read_example_table(digits), title="digits", folder=digits)
    client = TestClient(app, base_url="http://127.0.0.1")
    dataset = Dataset.open("digits")
    assert client.post("/api/marks", json={"rows": [3], "label": "9", "add": "doubtful"}).status_code == 200
    answer = client.post("/api/marks", json={"rows": [5, 6], "add": "exclude"}).json()
    assert (answer["marked"], answer["tags"]) == (3, ["doubtful", "exclude"])
    assert client.get("/api/corrections.csv").text == (digits / "corrections.csv").read_text(encoding="utf-8")
    corrected = Dataset.open(f"digits@{digits / 'corrections.csv'}")
    assert len(corrected) == len(dataset) - 2
    assert corrected.labels[3] == 9
    assert (np.delete(dataset.labels, [5, 6])[4:] == corrected.labels[4:]).all()
    again = TestClient(
        create_app(example_table.read_example_table(digits), folder=digits), base_url="http://127.0.0.1"
    )
    rows = again.post("/api/rows", json={"marked": True}).json()["rows"]
    assert [row["index"] for row in rows] == [3, 5, 6]
    assert rows[0]["mark"] == {"corrected_label": "9", "tags": ["doubtful"]}
    # Taken back, nothing is left of it.
    again.post("/api/marks", json={"rows": [3], "label": "", "remove": "doubtful"})
    again.post("/api/marks", json={"rows": [5, 6], "remove": "exclude"})
    assert len(open_corrected(dataset, digits / "corrections.csv")) == len(dataset)


def test_a_formula_in_a_name_is_quoted_in_the_file_and_read_back(tmp_path):
    marks = Marks(tmp_path)
    marks.set([{"id": "=1+1", "label": "-a"}], label="+b")
    line = (tmp_path / "corrections.csv").read_text(encoding="utf-8").splitlines()[1]
    assert line.startswith("'=1+1,")
    assert ",'-a,'+b," in line
    assert Marks(tmp_path).of("=1+1").corrected_label == "+b"
    names = ["=1+1", "'=x", "'tis"]
    marks.set([{"id": names[1], "label": "-a"}, {"id": names[2], "label": "-a"}], label="+b")
    dataset = Dataset.from_arrays(np.arange(3.0)[:, None], [0, 0, 0], ids=names, class_names=["-a", "+b"])
    assert open_corrected(dataset, tmp_path / "corrections.csv").labels.tolist() == [1, 1, 1]


@contextlib.contextmanager
def full_disk():
    """Files can be made, but nothing can be written to them."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_mark_that_cannot_be_written_is_not_kept(tmp_path):
    table = Examples(pa.table({"id": ["a", "b"], "label": ["cat", "dog"]}))
    client = TestClient(create_app(table, folder=tmp_path), base_url="http://127.0.0.1")
    with full_disk():
        for change in ({"label": "dog"}, {"add": "doubtful"}):
            answer = client.post("/api/marks", json={"rows": [0], **change})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert os.strerror(errno.EFBIG) in answer.json()["error"]
    assert client.post("/api/rows", json={"marked": True}).json()["rows"] == []
    assert client.get("/api/table").json()["marked"] == 0
    assert client.post("/api/marks", json={"rows": [1], "add": "exclude"}).json()["marked"] == 1
    assert Marks(tmp_path).ids() == ["b"]


def test_images_are_read_from_disk_only_when_they_are_shown(tmp_path):
    paths = [f"{number}.png" for number in range(4)]
    for number, name in enumerate(paths[:3]):
        Image.new("RGB", (30, 60), (60 * number, 0, 0)).save(tmp_path / name)
    table = pa.table({"id": paths, "path": paths})
    client = TestClient(create_app(Examples(table), images=tmp_path), base_url="http://127.0.0.1")
    sheet = np.asarray(Image.open(io.BytesIO(client.get("/api/sprite?rows=2,0,3").content)))
    assert sheet[32, 32].tolist() == [120, 0, 0]
    assert sheet[32, 64 + 32].tolist() == [0, 0, 0]
    assert sheet[32, 128 + 32].tolist() == [128, 128, 128]  # the file does not exist


GREY = 128


@pytest.fixture
def hostile(tmp_path):
    """A folder whose table names files that it should not: outside, links, a pipe, a program for Ghostscript."""
    images, outside = tmp_path / "images", tmp_path / "outside"
    images.mkdir()
    outside.mkdir()
    white = Image.new("RGB", (64, 64), (255, 255, 255))
    white.save(images / "inside.png")
    white.save(outside / "private.png")
    white.save(images / "program.eps")
    (images / "link.png").symlink_to(outside / "private.png")
    (images / "folder.png").mkdir()
    (images / "link").symlink_to(outside)
    os.mkfifo(images / "pipe.png")
    named = [str(outside / "private.png"), "../outside/private.png", "link.png", "link/private.png", "pipe.png"]
    named += ["program.eps", "folder.png", "/dev/zero", "a" * 300, "nul\0.png", "", str(images / "inside.png")]
    return Examples(pa.table({"id": list(map(str, range(len(named)))), "path": named})), images


def test_no_file_outside_the_folder_is_shown(hostile, monkeypatch):
    table, images = hostile
    monkeypatch.chdir(images.parent)
    client = TestClient(create_app(table, images=images), base_url="http://127.0.0.1")
    rows = range(len(table))
    sheet = np.asarray(Image.open(io.BytesIO(client.get(f"/api/sprite?rows={','.join(map(str, rows))}").content)))
    assert [int(sheet[32, 64 * row + 32, 0]) for row in rows] == [GREY] * (len(table) - 1) + [255]
    named = Examples(pa.table({"id": ["a"], "path": ["images/inside.png"]}))  # as `hardpan audit images` names it
    client = TestClient(create_app(named, images=images), base_url="http://127.0.0.1")
    assert np.asarray(Image.open(io.BytesIO(client.get("/api/sprite?rows=0").content)))[32, 32, 0] == 255


def test_no_file_is_read_unless_its_folder_was_named(hostile):
    client = TestClient(create_app(hostile[0]), base_url="http://127.0.0.1")
    assert client.get("/api/table").json()["thumbnails"] is None
    assert client.get("/api/sprite?rows=0").status_code == 404


def test_a_server_that_was_asked_for_pipes_still_answers_and_ends(hostile, tmp_path):
    table, images = hostile
    pq.write_table(table.table, tmp_path / example_table.TABLE)
    command = [sys.executable, "-m", "hardpan", "browse", str(tmp_path), "--images", str(images), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = re.search(r"http://\S+", server.stdout.readline()).group()
            for _ in range(45):  # more than the server has threads
                assert httpx.get(f"{address}/api/sprite?rows=4", timeout=20).status_code == 200
            server.terminate()
            assert server.wait(20) == 0
        finally:
            server.kill()


def test_thumbnails_of_another_size_than_an_audit_saves_are_refused(tmp_path):
    pq.write_table(pa.table({"id": ["a", "b"]}), tmp_path / example_table.TABLE)
    for shape in ((2, 65, 8), (2, 8, 100_000), (2, 0, 8), (2, 8, 8, 4), (2, 8), (2, 8, 8, 3, 1)):
        np.save(tmp_path / example_table.THUMBNAILS, np.zeros(shape, np.uint8))
        with pytest.raises(InputError, match=example_table.THUMBNAILS):
            example_table.read_example_table(tmp_path)


def test_the_report_beside_the_table_is_served_under_a_policy_of_its_own(digits):
    (digits / "index.html").write_text("<title>Audit</title>", encoding="utf-8")
    client = TestClient(
        create_app(example_table.read_example_table(digits), folder=digits), base_url="http://127.0.0.1"
    )
    assert client.get("/api/table").json()["report"] is True
    answer = client.get("/report")
    assert "Audit" in answer.text
    assert answer.headers.get_list("content-security-policy") == [PAGE_POLICY]


def test_files_that_the_report_links_to_are_served_and_no_others(digits):
    (digits / "index.html").write_text("<title>Audit</title>", encoding="utf-8")
    (digits / "report.json").write_text("{}", encoding="utf-8")
    (digits / "problems").mkdir(exist_ok=True)
    (digits / "problems" / "labels.csv").write_text("row\n1\n", encoding="utf-8")
    (digits / "problems" / "outside.csv").symlink_to(digits / "report.json")
    os.mkfifo(digits / "problems" / "pipe.csv")
    client = TestClient(
        create_app(example_table.read_example_table(digits), folder=digits), base_url="http://127.0.0.1"
    )
    assert client.get("/report.json").text == "{}"
    assert client.get("/problems/labels.csv").text == "row\n1\n"
    for path in ("outside.csv", "pipe.csv", "none.csv", "..%2Fconfig.csv", "labels.txt", "a" * 300 + ".csv"):
        assert client.get(f"/problems/{path}").status_code == 404


def test_links_of_the_folder_are_not_followed(digits, tmp_path):
    folder, outside = tmp_path / "audit", tmp_path / "outside"
    shutil.copytree(digits, folder, ignore=shutil.ignore_patterns("problems", "index.html", "report.json"))
    outside.mkdir()
    for name in ("index.html", "report.json", "labels.csv"):
        (outside / name).write_text("private", encoding="utf-8")
    (folder / "index.html").write_text("<title>Audit</title>", encoding="utf-8")
    (folder / "report.json").symlink_to(outside / "report.json")
    (folder / "problems").symlink_to(outside)
    client = TestClient(
        create_app(example_table.read_example_table(folder), folder=folder), base_url="http://127.0.0.1"
    )
    assert client.get("/report.json").status_code == 404
    assert client.get("/problems/labels.csv").status_code == 404
    (folder / "index.html").unlink()
    (folder / "index.html").symlink_to(outside / "index.html")
    assert client.get("/report").status_code == 404
    linked = tmp_path / "linked"
    linked.symlink_to(folder)  # the folder itself may be named by a link
    (folder / "index.html").unlink()
    (folder / "index.html").write_text("<title>Audit</title>", encoding="utf-8")
    client = TestClient(
        create_app(example_table.read_example_table(linked), folder=linked), base_url="http://127.0.0.1"
    )
    assert client.get("/report").status_code == 200


@pytest.mark.parametrize("rows", ["", "1,x", "-1", "99999999", "1" * 5000])
def test_a_bad_sprite_is_refused(client, rows):
    assert client.get("/api/sprite", params={"rows": rows}).status_code == 400


def test_only_this_machine_is_answered(client):
    assert client.get("/", headers={"host": "elsewhere.example"}).status_code == 400
    assert client.post("/api/rows", content=b"{}", headers={"content-type": "text/plain"}).status_code == 400
    assert client.get("/../../etc/passwd").status_code == 404
    assert "frame-ancestors 'none'" in client.get("/").headers["content-security-policy"]


def test_vectors_have_no_pictures():
    dataset = Dataset.open("digits")
    flat = type(dataset)("flat", dataset.features(), dataset.ids, dataset.labels, dataset.class_names)
    assert example_table.example_thumbnails(flat) is None
    table = example_table.join_example_table(flat, {"test": np.arange(len(flat))}, {})
    client = TestClient(create_app(Examples(table)), base_url="http://localhost")
    assert client.get("/api/sprite?rows=1").status_code == 404
    assert client.get("/api/table").json()["thumbnails"] is None


def test_a_folder_that_holds_no_table_is_refused(tmp_path, digits):
    with pytest.raises(InputError):
        example_table.read_example_table(tmp_path)
    (tmp_path / example_table.TABLE).write_bytes(b"PAR1 nonsense")
    with pytest.raises(InputError, match="Parquet"):
        example_table.read_example_table(tmp_path)
    (tmp_path / example_table.TABLE).write_bytes((digits / example_table.TABLE).read_bytes())
    np.save(tmp_path / example_table.THUMBNAILS, np.zeros((3, 8, 8), np.uint8))
    with pytest.raises(InputError, match=example_table.THUMBNAILS):
        example_table.read_example_table(tmp_path)


def test_a_column_of_another_length_is_refused():
    dataset = Dataset.open("digits")
    with pytest.raises(InputError, match=r"'confusion'.*1,797.*3"):
        example_table.join_example_table(dataset, {}, {"confusion": np.zeros(3)})


def test_the_queue_of_suspicious_labels_makes_corrections_that_can_be_undone(digits, tmp_path):
    table = example_table.read_example_table(digits)
    given = table.table["label"].to_pylist()
    doubted = {1000: 0.3, 400: 0.1, 7: 0.2}
    suggested = [str((int(label) + 1) % 10) if row in doubted else None for row, label in enumerate(given)]
    probability = np.array([doubted.get(row, 0.9) for row in range(1797)])
    rank = np.empty(1797)
    rank[np.argsort(probability, kind="stable")] = np.arange(1.0, 1798.0)
    near = [table.table["id"][3].as_py() if row == 400 else None for row in range(1797)]
    columns = {name: table.table[name] for name in ("id", "split", "row", "label")}
    columns |= {"suggested_label": pa.array(suggested), "label_rank": rank, "label_probability": probability}
    columns |= {"duplicate": pa.array(near), "feature: ink": np.arange(1797) / 2}
    app = create_app(Examples(pa.table(columns)), folder=tmp_path)
    client = TestClient(app, base_url="http://127.0.0.1")
    assert client.get("/api/table").json()["queue"] == 3
    found = client.get("/api/review").json()
    assert [item["index"] for item in found["items"]] == [400, 7, 1000]
    first = found["items"][0]
    assert (first["suggested"], first["content"]) == (suggested[400], [["ink", "200"]])
    assert (first["near"]["label"], first["near"]["content"]) == (given[3], [["ink", "1.5"]])

    def answer(positions, verdict, right=""):
        return client.post("/api/review", json={"positions": positions, "verdict": verdict, "right_class": right})

    def corrections():
        rows = client.get("/api/corrections.csv").text.splitlines()[1:]
        return {tuple(row.split(",")[i] for i in (2, 5, 6)) for row in rows}

    assert answer([0, 1, 2], "accepted").json()["judged"] == 3
    assert corrections() == {(str(row), suggested[row], "") for row in doubted}
    corrected = open_corrected(Dataset.open("digits"), tmp_path / "corrections.csv")
    assert corrected.labels[400] == int(suggested[400])
    assert answer([0, 1], "").json()["judged"] == 1  # undone
    assert answer([0], "right").json()["answers"] == [{"verdict": "right", "right_class": ""}]
    assert answer([0], "ambiguous").json()["answers"] == [{"verdict": "ambiguous", "right_class": ""}]
    other = next(name for name in "0123456789" if name not in (given[7], suggested[7]))
    assert answer([1], "wrong", other).json()["judged"] == 3
    assert corrections() == {("400", "", "ambiguous"), ("7", other, ""), ("1000", suggested[1000], "")}
    again = create_app(Examples(pa.table(columns)), folder=tmp_path)
    resumed = TestClient(again, base_url="http://127.0.0.1").get("/api/review").json()
    assert [item["verdict"] for item in resumed["items"]] == ["ambiguous", "wrong", "accepted"]
    bad = (
        ([3], "right"),
        ([], "right"),
        ([True], "right"),
        ([0], "fine"),
        ([0], "wrong"),
        ([0], "right", "1"),
        (0, ""),
    )
    assert all(answer(*query).status_code == 400 for query in bad)


def test_a_review_hides_what_models_say_and_refuses_what_is_no_answer(digits, tmp_path):
    table = example_table.read_example_table(digits)
    rank = pa.array(np.arange(1.0, 1798.0))
    same = pa.array([None] * 1797, pa.string())
    columns = {"suggested_label": same, "label_rank": rank, "label_probability": rank}
    ranked = Examples(pa.table({name: table.table[name] for name in ("id", "split", "row", "label")} | columns))
    site = ReviewSite(ranked, tmp_path, 20)
    client = TestClient(create_app(ranked, review=site), base_url="http://127.0.0.1")
    sample = client.get("/api/review").json()
    assert len(sample["items"]) == 20
    assert set(sample["items"][0]) == {"index", "where", "label", "verdict", "right_class", "content"}
    assert "review.js" in client.get("/review").text
    good = {"position": 3, "verdict": "ambiguous", "right_class": ""}
    assert client.post("/api/review", json=good).json() == {"judged": 1, "result": None}
    with full_disk():
        for position in (0, 3):
            answer = client.post("/api/review", json={"position": position, "verdict": "right", "right_class": ""})
            assert answer.status_code == 503
    judged = [item["verdict"] for item in client.get("/api/review").json()["items"]]
    assert judged == ["", "", "", "ambiguous", *[""] * 16]
    label = sample["items"][4]["label"]
    wrong = (
        {"position": 20},
        {"position": True},
        {"verdict": "fine"},
        {"verdict": None},
        {"right_class": "cat"},
        {"verdict": "right", "right_class": "1"},
        {"position": 4, "verdict": "wrong", "right_class": label},
        {"right_class": ["1"]},
    )
    for changes in wrong:
        assert client.post("/api/review", json=good | changes).status_code == 400
    again = ReviewSite(ranked, tmp_path, 50)
    assert (again.resumed, len(again.review), again.review.judged) == (True, 20, 1)
    with pytest.raises(InputError, match="review"):
        ReviewSite(Examples(ranked.table.slice(900)), tmp_path, 20)
    assert client.post("/api/review", json=good | {"verdict": ""}).json()["judged"] == 0
    (tmp_path / "review.csv").unlink()
    with pytest.raises(InputError, match="ranked"):
        ReviewSite(table, tmp_path, 20)
