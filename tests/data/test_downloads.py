"""Downloads against a real server on this machine, and what is said where there is none."""

import gzip
import hashlib
import http.server
import threading
from dataclasses import replace
from functools import partial

import pytest
from tests.data import samples

from hardpan.data import downloads
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked: list[str]

    def log_message(self, *_):
        self.asked.append(self.path)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder that is served, its address, and the paths that were asked for."""
    root = tmp_path / "served"
    root.mkdir()
    asked = []
    handler = type("Handler", (Quiet,), {"asked": asked})
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv(downloads.MIRROR_VARIABLE, raising=False)
    monkeypatch.delenv(downloads.CACHE_VARIABLE, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=root)) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield root, f"http://127.0.0.1:{running.server_address[1]}", asked
        running.shutdown()
        thread.join()


def summed(file, content):
    """The file with the sums and the length of another content."""
    inside = gzip.decompress(content) if file.unpacked else content
    md5 = hashlib.md5(inside, usedforsecurity=False).hexdigest() if file.md5 else ""
    return replace(file, sha256=hashlib.sha256(inside).hexdigest(), md5=md5, size=len(inside))


def publish(monkeypatch, root, name):
    """Serve a small sample as the named dataset, with the sums of the sample instead of the published ones."""
    source = downloads.SOURCES[name]
    folder = root / name
    folder.mkdir(exist_ok=True)
    first = source.files[0].name
    if source.layout == "cifar":
        classes = int(name.removeprefix("cifar"))
        files = {first: gzip.compress(samples.tar_bytes(samples.cifar_files(classes)), mtime=0)}
        truth = samples.cifar_truth(classes)
    else:
        truth = samples.grey_truth()
        files = {f"{file}.gz": gzip.compress(content) for file, content in samples.idx_files(truth).items()}
    for file, content in files.items():
        (folder / file).write_bytes(content)
    known = tuple(summed(file, files[file.name]) for file in source.files)
    monkeypatch.setattr(downloads, "SOURCES", {**downloads.SOURCES, name: replace(source, files=known)})
    return truth


@pytest.mark.parametrize("name", ["mnist", "cifar10", "cifar100"])
def test_a_name_is_fetched_once_and_kept(server, monkeypatch, tmp_path, name, capsys):
    root, address, asked = server
    truth = publish(monkeypatch, root, name)
    cache = tmp_path / "cache"
    dataset = Dataset.open(name, mirror=address, cache=cache)
    assert dataset.name == name
    assert dataset.x.tobytes() == truth.x.tobytes()
    assert dataset.labels.tolist() == truth.labels.tolist()
    assert dataset.split.tolist() == truth.split
    assert dataset.labels.max() < dataset.n_classes
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("fetched") == len(downloads.SOURCES[name].files)
    n = len(asked)
    again = Dataset.open(name, mirror=address, cache=cache)
    assert again.ids.tolist() == dataset.ids.tolist()
    assert len(asked) == n
    kept = {file.name for file in (cache / name).iterdir()}
    assert kept == {file.name for file in downloads.SOURCES[name].files}


def test_settings_by_environment_and_the_argument_wins(server, monkeypatch, tmp_path):
    root, address, asked = server
    publish(monkeypatch, root, "mnist")
    monkeypatch.setenv(downloads.MIRROR_VARIABLE, f"{address}/")
    monkeypatch.setenv(downloads.CACHE_VARIABLE, str(tmp_path / "by variable"))
    Dataset.open("mnist")
    assert (tmp_path / "by variable" / "mnist" / "train-images-idx3-ubyte.gz").exists()
    monkeypatch.setenv(downloads.MIRROR_VARIABLE, "http://127.0.0.1:9")
    Dataset.open("mnist", mirror=address, cache=tmp_path / "by argument")
    assert (tmp_path / "by argument" / "mnist").is_dir()
    assert len(asked) == 8


def test_another_content_is_never_kept(server, monkeypatch, tmp_path):
    root, address, _ = server
    publish(monkeypatch, root, "mnist")
    altered = bytearray(samples.idx_files(samples.grey_truth())["t10k-labels-idx1-ubyte"])
    altered[-1] ^= 1
    (root / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(altered)))
    with pytest.raises(InputError, match=r"t10k-labels-idx1-ubyte\.gz"):
        Dataset.open("mnist", mirror=address, cache=tmp_path / "cache")
    kept = {file.name for file in (tmp_path / "cache" / "mnist").iterdir()}
    assert kept == {f"{name}.gz" for name in samples.IDX_FILES[:3]}


@pytest.mark.parametrize("content", [b"", b"<html>Moved</html>", gzip.compress(bytes(10**6)), bytes(3 * 10**6)])
def test_what_is_no_dataset_is_refused(server, monkeypatch, tmp_path, content):
    root, address, _ = server
    publish(monkeypatch, root, "mnist")
    (root / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte\.gz"):
        Dataset.open("mnist", mirror=address, cache=tmp_path / "cache")
    assert list((tmp_path / "cache" / "mnist").iterdir()) == []


def test_a_file_in_the_cache_with_another_content_is_refused_not_replaced(server, monkeypatch, tmp_path):
    root, address, asked = server
    publish(monkeypatch, root, "mnist")
    mine = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    mine.parent.mkdir()
    mine.write_bytes(b"mine")
    with pytest.raises(InputError, match="remove"):
        Dataset.open("mnist", mirror=address, cache=tmp_path)
    assert mine.read_bytes() == b"mine"
    assert asked == []


def test_files_put_there_by_hand_need_no_network_and_strangers_beside_them_are_not_read(monkeypatch, tmp_path):
    served = tmp_path / "served"
    served.mkdir()
    truth = publish(monkeypatch, served, "fashion-mnist")
    (served / "fashion-mnist" / "train-images-idx3-ubyte").write_bytes(b"no sum was compared for this one")
    dataset = Dataset.open("fashion-mnist", mirror="http://127.0.0.1:9", cache=served)
    assert dataset.x.tobytes() == truth.x.tobytes()
    assert dataset.class_names[:2] == ("T-shirt/top", "Trouser")


def test_offline_it_says_which_files_to_put_where(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(InputError) as caught:
        Dataset.open("fashion-mnist", mirror="http://127.0.0.1:9", cache=tmp_path)
    message = str(caught.value)
    assert all(f"{name}.gz" in message for name in samples.IDX_FILES)
    assert str(tmp_path / "fashion-mnist") in message
    assert "HARDPAN_MIRROR" in message
    assert "\n" not in message


def test_a_mirror_without_the_file_says_so(server, tmp_path):
    _, address, _ = server
    with pytest.raises(InputError, match="404"):
        Dataset.open("cifar10", mirror=address, cache=tmp_path)


@pytest.mark.parametrize("mirror", ["ftp://example.org", "file:///etc", "nonsense"])
def test_a_mirror_is_an_http_address(tmp_path, mirror):
    with pytest.raises(InputError, match=r"\bmirror\b"):
        Dataset.open("mnist", mirror=mirror, cache=tmp_path)


def test_a_cache_that_cannot_be_written_says_so(server, monkeypatch, tmp_path):
    root, address, _ = server
    publish(monkeypatch, root, "mnist")
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError):
        Dataset.open("mnist", mirror=address, cache=tmp_path / "file")


def test_names_and_sources_are_the_same_and_sums_are_sums():
    for source in downloads.SOURCES.values():
        assert source.address.startswith("http")
        for file in source.files:
            assert len(bytes.fromhex(file.sha256)) == 32
            assert len(bytes.fromhex(file.md5)) in (0, 16)
            assert file.size > 1000
    cited = [name for name, source in downloads.SOURCES.items() if all(file.md5 for file in source.files)]
    assert cited == ["cifar10", "cifar100"]


def test_a_packed_file_with_another_content_is_refused_and_not_kept(server, monkeypatch, tmp_path):
    name = "cifar10"
    root, address, _ = server
    publish(monkeypatch, root, name)
    source = downloads.SOURCES[name]
    served = root / name / source.files[0].name
    content = bytearray(served.read_bytes())
    content[len(content) // 2] ^= 1
    served.write_bytes(bytes(content))
    with pytest.raises(InputError, match="sha256"):
        Dataset.open(name, mirror=address, cache=tmp_path / "cache")
    assert list((tmp_path / "cache" / name).iterdir()) == []


def test_both_sums_have_to_be_right(server, monkeypatch, tmp_path):
    name = "cifar10"
    root, address, _ = server
    publish(monkeypatch, root, name)
    source = downloads.SOURCES[name]
    files = (replace(source.files[0], md5="0" * 32), *source.files[1:])
    monkeypatch.setattr(downloads, "SOURCES", {**downloads.SOURCES, name: replace(source, files=files)})
    with pytest.raises(InputError, match="0" * 32):
        Dataset.open(name, mirror=address, cache=tmp_path / "cache")


def test_a_person_sees_how_far_it_is(monkeypatch, capsys):
    file = downloads.File("some.gz", "0" * 64, 1000, unpacked=True)
    progress = downloads._DownloadProgress(file)
    progress.total = 1000
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    for _ in range(4):
        progress.update(250)
    progress.reset()
    progress.update(1000)
    progress.close()
    assert capsys.readouterr().err == "".join(f"\rsome.gz {share:3d} %" for share in (25, 50, 75, 100)) + "\n"
