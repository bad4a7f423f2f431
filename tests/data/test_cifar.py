import gzip
import io
import tarfile

import numpy as np
import pytest
from tests.data import samples

from hardpan.data.dataset import Dataset
from hardpan.errors import InputError


def packed(folder, content, name="cifar-10-binary.tar.gz"):
    path = folder / name
    path.write_bytes(gzip.compress(content, compresslevel=1) if name.endswith("gz") else content)
    return path


def test_planes_become_pixels(tmp_path):
    path, truth = samples.write_cifar10(tmp_path)
    raw = np.fromfile(path / "data_batch_3.bin", dtype=np.uint8)
    image = Dataset.open(path).x[2]
    assert image[4, 7].tolist() == [raw[1 + plane * 1024 + 4 * 32 + 7] for plane in range(3)]
    np.testing.assert_array_equal(image, truth.x[2])


def test_cifar100_has_fine_labels_and_coarse_metadata(tmp_path):
    path, truth = samples.write_cifar100(tmp_path)
    dataset = Dataset.open(path)
    assert dataset.n_classes == 100
    assert dataset.metadata["coarse"].tolist() == [f"coarse_{label % 20}" for label in truth.labels]


@pytest.mark.parametrize("name", ["cifar.tar", "cifar.tgz", "CIFAR.TAR.GZ"])
def test_archives_by_other_names(tmp_path, name):
    content = samples.tar_bytes(samples.cifar_files(100), "cifar-100-binary")
    path = tmp_path / name
    path.write_bytes(content if name.endswith("tar") else gzip.compress(content))
    assert Dataset.open(path).name == "cifar100"


def test_names_are_numbers_where_the_file_of_names_is_not_there(tmp_path):
    samples.write_cifar10(tmp_path)
    (tmp_path / "batches.meta.txt").unlink()
    assert Dataset.open(tmp_path).class_names == tuple("0123456789")


@pytest.mark.parametrize(
    ("files", "family"),
    [
        (("data_batch_1", "data_batch_2", "test_batch", "batches.meta"), "10"),
        (("train", "test", "meta", "file.txt~"), "100"),
    ],
)
@pytest.mark.parametrize("form", ["folder", "archive"])
def test_the_pickled_version_is_refused_and_the_binary_one_named(tmp_path, files, family, form):
    inside = tmp_path / ("cifar-10-batches-py" if family == "10" else "cifar-100-python")
    if form == "archive":
        place = packed(
            tmp_path, samples.tar_bytes(dict.fromkeys(files, b"\x80\x04."), inside.name), "python.tar.gz"
        )
    else:
        inside.mkdir()
        for name in files:
            (inside / name).write_bytes(b"\x80\x04.")
        place = tmp_path
    with pytest.raises(InputError, match=f"cifar-{family}-binary.tar.gz"):
        Dataset.open(place)


def test_one_pickled_batch_is_refused(tmp_path):
    (tmp_path / "data_batch_1").write_bytes(b"\x80\x04.")
    with pytest.raises(InputError, match="cifar-10-binary"):
        Dataset.open(tmp_path / "data_batch_1")


def test_one_file_asks_for_its_folder(tmp_path):
    samples.write_cifar10(tmp_path)
    with pytest.raises(InputError, match="data_batch_1"):
        Dataset.open(tmp_path / "data_batch_1.bin")


def changed(name, change):
    files = samples.cifar_files(10)
    files[name] = change(files[name])
    return {key: value for key, value in files.items() if value is not None}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (changed("data_batch_2.bin", lambda _: None), "data_batch_2.bin"),
        (changed("data_batch_2.bin", lambda content: content[:-1]), "data_batch_2.bin"),
        (changed("data_batch_2.bin", lambda content: content * 2), "data_batch_2.bin"),
        (changed("test_batch.bin", lambda _: b""), "test_batch.bin"),
        (changed("test_batch.bin", lambda content: b"\x0a" + content[1:]), "10"),
        (changed("batches.meta.txt", lambda _: b"cat dog"), "batches.meta.txt"),
        (changed("batches.meta.txt", lambda _: b"\xff\xfe"), "batches.meta.txt"),
    ],
)
@pytest.mark.parametrize("form", ["folder", "archive"])
def test_what_does_not_fit_is_refused(tmp_path, files, message, form):
    place = tmp_path
    if form == "archive":
        place = packed(tmp_path, samples.tar_bytes(files))
    else:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        Dataset.open(place)


def test_paths_in_an_archive_lead_nowhere(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    path = packed(inside, samples.tar_bytes(samples.cifar_files(10), "../../.."))
    before = sorted(tmp_path.rglob("*"))
    assert len(Dataset.open(path)) == 6
    assert sorted(tmp_path.rglob("*")) == before


def test_links_are_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(samples.cifar_files(10)["test_batch.bin"])
    buffer = io.BytesIO(samples.tar_bytes(changed("test_batch.bin", lambda _: None)))
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            member = tarfile.TarInfo("test_batch.bin")
            member.type, member.linkname = kind, str(tmp_path / "secret")
            archive.addfile(member)
    with pytest.raises(InputError, match=r"test_batch\.bin"):
        Dataset.open(packed(tmp_path, buffer.getvalue()))


def lying_header(size, kind=tarfile.REGTYPE, name="test_batch.bin"):
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(format=tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize("size", [2**33, 2**60])
def test_a_header_that_lies_takes_no_memory(tmp_path, kind, size):
    with pytest.raises(InputError, match=r"\.tar\.gz"):
        Dataset.open(packed(tmp_path, lying_header(size, kind) + bytes(2048)))


def test_a_file_twice_is_refused(tmp_path):
    buffer = io.BytesIO(samples.tar_bytes(samples.cifar_files(10)))
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        member = tarfile.TarInfo("other/test_batch.bin")
        archive.addfile(member)
    with pytest.raises(InputError, match=r"test_batch\.bin"):
        Dataset.open(packed(tmp_path, buffer.getvalue()))


def test_an_archive_of_very_many_members_is_refused(tmp_path):
    files = {str(number): b"" for number in range(1001)}
    with pytest.raises(InputError, match="1,000"):
        Dataset.open(packed(tmp_path, samples.tar_bytes(files)))


def test_an_archive_of_something_else_is_refused(tmp_path):
    with pytest.raises(InputError, match="cifar-10-binary"):
        Dataset.open(packed(tmp_path, samples.tar_bytes({"readme": b"hello"})))


def test_bytes_after_the_end_are_not_unpacked_forever(tmp_path):
    content = samples.tar_bytes(samples.cifar_files(10)) + bytes(40 << 20)
    with pytest.raises(InputError, match="cifar-10-binary"):
        Dataset.open(packed(tmp_path, content))
