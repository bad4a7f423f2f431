"""Which published datasets are fetched by name: addresses, files, sums, and where each sum is stated.

To add one, add its entry to ``SOURCES`` with a sum that can be cited, and where it is stated.

| name | sums are |
|---|---|
| mnist, fashion-mnist | of the unpacked content, so that a copy gzipped by someone else passes |
| cifar10, cifar100 | of the archives whose md5 sums Krizhevsky's page states |
| kmnist | sha256 and length: tensorflow/datasets, tensorflow_datasets/url_checksums/kmnist.txt |
| emnist-* | the same, tensorflow_datasets/url_checksums/emnist.txt |
| svhn | the same, tensorflow_datasets/url_checksums/svhn_cropped.txt |

The last three have md5 sums as well: pytorch/vision, torchvision/datasets/mnist.py and svhn.py. Both sums have to
be right, so two independent projects confirm them. These archives were not run here: the
sums are cited, and the readers were tried on small files of the same layout.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Layout = Literal["idx", "cifar", "emnist", "svhn"]


@dataclass(frozen=True, slots=True)
class File:
    """One published file: its name, the sums of its content, and how long that is.

    ``md5`` is compared too if it is known; ``unpacked`` says that the sums are over what gzip unpacks to;
    ``size`` is the length of what is summed.
    """

    name: str
    sha256: str
    size: int
    unpacked: bool = False
    md5: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A published dataset: the address of its files, the files, how they are laid out, what its classes are called.

    ``member`` is the dataset within a larger archive; ``folder`` the folder in cache and mirror if several names
    use the same files, by default the name.
    """

    address: str
    files: tuple[File, ...]
    citation: str
    class_names: tuple[str, ...] = ()
    layout: Layout = "idx"
    folder: str = ""
    member: str = ""


def _idx_files(train_images: str, train_labels: str, test_images: str, test_labels: str) -> tuple[File, ...]:
    """The four files of MNIST and of what was made in its image: 60,000 and 10,000 of 28 × 28."""
    return (
        File("train-images-idx3-ubyte.gz", train_images, 16 + 60_000 * 784, unpacked=True),
        File("train-labels-idx1-ubyte.gz", train_labels, 8 + 60_000, unpacked=True),
        File("t10k-images-idx3-ubyte.gz", test_images, 16 + 10_000 * 784, unpacked=True),
        File("t10k-labels-idx1-ubyte.gz", test_labels, 8 + 10_000, unpacked=True),
    )


# Lower-case letters that look like their capitals are one class with them, where classes are merged.
_MERGED = (*string.digits, *string.ascii_uppercase, *"abdefghnqrt")
_EMNIST_CLASSES: Mapping[str, tuple[str, ...]] = {
    "balanced": _MERGED,
    "byclass": (*string.digits, *string.ascii_uppercase, *string.ascii_lowercase),
    "bymerge": _MERGED,
    "digits": tuple(string.digits),
    "letters": tuple(string.ascii_uppercase),
    "mnist": tuple(string.digits),
}


def _emnist(member: str, class_names: tuple[str, ...]) -> Source:
    """One of the six sets that EMNIST's one archive holds."""
    return Source(
        "https://biometrics.nist.gov/cs_links/EMNIST",
        (
            File(
                "gzip.zip",
                "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
                561_753_746,
                md5="58c8d27c78d21e728a6bc7b3cc06412e",
            ),
        ),
        "EMNIST: Cohen, Afshar, Tapson and van Schaik 2017",
        class_names,
        layout="emnist",
        folder="emnist",
        member=member,
    )


SOURCES: Mapping[str, Source] = {
    "mnist": Source(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        _idx_files(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        "MNIST: LeCun, Cortes and Burges 1998",
    ),
    "fashion-mnist": Source(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        _idx_files(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        "Fashion-MNIST: Xiao, Rasul and Vollgraf 2017",
        ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz",
        (
            File(
                "cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                170_052_171,
                md5="c32a1d4ab5d03f1284b67883e8d87530",
            ),
        ),
        "CIFAR-10: Krizhevsky 2009",
        layout="cifar",
    ),
    "cifar100": Source(
        "https://www.cs.toronto.edu/~kriz",
        (
            File(
                "cifar-100-binary.tar.gz",
                "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                168_513_733,
                md5="03b5dce01913d631647c71ecec9e9cb8",
            ),
        ),
        "CIFAR-100: Krizhevsky 2009",
        layout="cifar",
    ),
    "kmnist": Source(
        "http://codh.rois.ac.jp/kmnist/dataset/kmnist",
        (
            File(
                "train-images-idx3-ubyte.gz",
                "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
                18_165_135,
                md5="bdb82020997e1d708af4cf47b453dcf7",
            ),
            File(
                "train-labels-idx1-ubyte.gz",
                "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
                29_497,
                md5="e144d726b3acfaa3e44228e80efcd344",
            ),
            File(
                "t10k-images-idx3-ubyte.gz",
                "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
                3_041_136,
                md5="5c965bf0a639b31b8f53240b1b52f4d7",
            ),
            File(
                "t10k-labels-idx1-ubyte.gz",
                "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
                5_120,
                md5="7320c461ea6c1c855c0b718fb2a4b134",
            ),
        ),
        "KMNIST: Clanuwat, Bober-Irizar, Kitamoto, Lamb, Yamamoto and Ha 2018",
        ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
    ),
    **{f"emnist-{member}": _emnist(member, names) for member, names in _EMNIST_CLASSES.items()},
    "svhn": Source(
        "http://ufldl.stanford.edu/housenumbers",
        (
            File(
                "train_32x32.mat",
                "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                182_040_794,
                md5="e26dedcc434d2e4c54c9b2d4a06d8373",
            ),
            File(
                "test_32x32.mat",
                "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
                64_275_384,
                md5="eb5a983be6a315427106f1b164d9cef3",
            ),
        ),
        "SVHN, cropped digits: Netzer, Wang, Coates, Bissacco, Wu and Ng 2011",
        tuple(string.digits),
        layout="svhn",
    ),
}
