"""The explorer's answers to requests, good ones and bad ones."""

import io
import json

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from hardpan import files
from hardpan.auditing import examples
from hardpan.auditing.examples import Examples
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.web.explorer import SPRITE_COLUMNS, create_app

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    dataset = Dataset.open("digits")
    parts = dataset.splits()
    confusion = np.linspace(0, 1, len(dataset))
    table = examples.join(
        dataset,
        {"train": parts.train, "validation": parts.validation, "test": parts.test},
        {"confusion": confusion},
    )
    folder = tmp_path_factory.mktemp("digits")
    examples.write(folder, table, dataset)
    return folder


@pytest.fixture(scope="module")
def client(digits):
    return TestClient(create_app(examples.read(digits), title="digits"), base_url="http://127.0.0.1")


def test_rows_come_a_page_at_a_time(client):
    asked = {"filters": [{"column": "part", "operation": "any_of", "value": ["test"]}], "sort": "confusion"}
    answer = client.post("/api/rows", json=asked | {"descending": True, "offset": 10, "limit": 5}).json()
    dataset = Dataset.open("digits")
    test = dataset.splits().test
    assert answer["total"] == len(test)
    assert [row["id"] for row in answer["rows"]] == [str(dataset.ids[row]) for row in test[::-1][10:15]]


def test_a_sprite_holds_the_pictures_asked_for(client):
    rows = [5, 900, *range(SPRITE_COLUMNS)]
    answer = client.get("/api/sprite", params={"rows": ",".join(map(str, rows))})
    sheet = np.asarray(Image.open(io.BytesIO(answer.content)))
    pictures = examples.thumbnails(Dataset.open("digits"))
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


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/api/rows", {"sort": "nothing"}, "there is no column 'nothing'"),
        ("/api/rows", {"filters": 3}, "must be a JSON list"),
        ("/api/rows", {"offset": -1}, "offset must be a whole number"),
        ("/api/rows", {"limit": 10**9}, "limit must be a whole number"),
        ("/api/histogram", {"column": "nothing"}, "there is no 'nothing'"),
        ("/api/subset", {"rows": []}, "nothing is selected"),
        ("/api/subset", {"rows": [10**9]}, "rows must be row numbers"),
        ("/api/subset", {"rows": "all"}, "rows must be row numbers"),
    ],
)
def test_a_bad_question_gets_a_sentence(client, path, body, words):
    answer = client.post(path, json=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]


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
    assert examples.thumbnails(flat) is None
    table = examples.join(flat, {"test": np.arange(len(flat))}, {})
    client = TestClient(create_app(Examples(table)), base_url="http://localhost")
    assert client.get("/api/sprite?rows=1").status_code == 404
    assert client.get("/api/table").json()["thumbnails"] is None


def test_a_folder_that_holds_no_table_is_refused(tmp_path, digits):
    with pytest.raises(InputError, match=r"holds no examples\.parquet; make it with: hardpan audit"):
        examples.read(tmp_path)
    (tmp_path / examples.TABLE).write_bytes(b"PAR1 nonsense")
    with pytest.raises(InputError, match="is not a Parquet file that can be read"):
        examples.read(tmp_path)
    (tmp_path / examples.TABLE).write_bytes((digits / examples.TABLE).read_bytes())
    np.save(tmp_path / examples.THUMBNAILS, np.zeros((3, 8, 8), np.uint8))
    with pytest.raises(InputError, match="does not belong to"):
        examples.read(tmp_path)


def test_a_column_of_another_length_is_refused():
    dataset = Dataset.open("digits")
    with pytest.raises(InputError, match="'confusion' must have one value an example, 1,797; got 3"):
        examples.join(dataset, {}, {"confusion": np.zeros(3)})
