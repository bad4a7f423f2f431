"""Vectors of images and texts by any function: what is cached, what is encoded again, what is refused."""

import numpy as np
import pytest

from hardpan import Dataset
from hardpan.encoders import Encoder, encode, open_encoder
from hardpan.errors import InputError

IMAGES = np.random.default_rng(0).integers(0, 255, (70, 4, 4), dtype=np.uint8)


class Counting:
    """An encoder that counts what it encodes, and may stop."""

    identity = "counting 1"

    def __init__(self, stop_at=None):
        self.seen, self.stop_at = 0, stop_at

    def __call__(self, batch):
        if self.stop_at is not None and self.seen >= self.stop_at:
            raise KeyboardInterrupt
        self.seen += len(batch)
        if isinstance(batch, list):
            return [[len(text), text.count("e")] for text in batch]
        return batch.reshape(len(batch), -1)[:, :2].astype(float)


@pytest.mark.parametrize("examples", [IMAGES, [f"text {'e' * n}" for n in range(70)]], ids=["images", "texts"])
def test_vectors_are_those_of_the_function_and_only_new_examples_are_encoded(examples, tmp_path):
    first, second, third = Counting(), Counting(), Counting()
    expected = np.asarray(Counting()(examples), dtype=np.float32)
    assert np.array_equal(encode(examples, first, cache=tmp_path), expected)
    assert np.array_equal(encode(examples[::-1], second, cache=tmp_path), expected[::-1])
    changed = examples.copy()
    changed[3] = "another" if isinstance(examples, list) else 255 - changed[3]
    encode(changed, third, cache=tmp_path)
    assert (first.seen, second.seen, third.seen) == (70, 0, 1)


def test_equal_examples_are_encoded_once_and_another_identity_is_another_encoder(tmp_path):
    one, other = Counting(), Counting()
    other.identity = "counting 2"
    encode(np.repeat(IMAGES, 3, axis=0), one, cache=tmp_path)
    encode(IMAGES, other, cache=tmp_path)
    assert (one.seen, other.seen) == (70, 70)


def test_an_interrupted_encoding_resumes(tmp_path):
    stopped, again = open_encoder(Counting(stop_at=40), batch=20), Counting()
    with pytest.raises(KeyboardInterrupt):
        encode(IMAGES, stopped, cache=tmp_path)
    found = encode(IMAGES, again, cache=tmp_path)
    assert again.seen == 30
    assert np.array_equal(found, encode(IMAGES, Counting()))


def test_a_damaged_file_of_the_cache_is_encoded_again(tmp_path):
    encode(IMAGES, Counting(), cache=tmp_path)
    (path,) = tmp_path.rglob("*.npz")
    path.write_bytes(path.read_bytes()[:-200])
    again = Counting()
    encode(IMAGES, again, cache=tmp_path)
    assert again.seen == 70


def test_a_function_by_name_is_known_by_the_source_of_its_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    identities = []
    for name, factor in (("one_encoder", 1), ("two_encoder", 1), ("three_encoder", 2)):
        (tmp_path / f"{name}.py").write_text(f"def pixels(x):\n    return {factor} * x.reshape(len(x), -1)\n")
        encoder = open_encoder(f"{name}:pixels")
        assert encode(IMAGES, encoder)[0, 0] == factor * IMAGES[0, 0, 0]
        identities.append(encoder.identity.removeprefix(name))
    assert identities[0] == identities[1] != identities[2]


def test_progress_rises_to_the_last_batch():
    steps = []
    encode(IMAGES, open_encoder(Counting(), batch=20), progress=lambda step, fraction: steps.append(fraction))
    assert steps == [0.0, 20 / 70, 40 / 70, 60 / 70]


WRONG = {
    "one number per example": lambda batch: np.zeros(len(batch)),
    "one vector too few": lambda batch: np.zeros((len(batch) - 1, 2)),
    "no numbers": lambda batch: np.zeros((len(batch), 0)),
    "not a number": lambda batch: np.full((len(batch), 2), np.nan),
    "text": lambda batch: [["a"]] * len(batch),
    "another width each time": lambda batch: np.zeros((len(batch), len(batch))),
    "an exception": lambda batch: 1 / 0,
}


@pytest.mark.parametrize("function", WRONG.values(), ids=WRONG)
def test_what_an_encoder_must_not_give_is_refused(function):
    with pytest.raises(InputError) as refused:
        encode(IMAGES, open_encoder(function))
    assert refused.value.argument == "encoder"


@pytest.mark.parametrize(
    "name", ["", 3, "no_such_module:encode", "math:pi", "./absent.onnx", "no folder here", None]
)
def test_an_unknown_encoder_is_refused(name):
    with pytest.raises(InputError) as refused:
        open_encoder(name)
    assert refused.value.argument == "encoder"


def test_a_dataset_keeps_vectors_beside_its_examples():
    x, y = IMAGES, np.arange(70) % 2
    data = Dataset.open((x, y), encoder=lambda images: images.mean(axis=2))
    assert data.is_images
    assert data.inputs.shape == (70, 4)
    assert np.allclose(data.select([5, 3]).inputs, x[[5, 3]].mean(axis=2))
    assert data.select([5, 3]).encoder == data.encoder
    with pytest.raises(InputError) as refused:
        Dataset.open((np.eye(10), y[:10]), encoder=lambda rows: rows)
    assert refused.value.argument == "encoder"


def test_an_encoder_that_is_open_stays_as_it_is():
    encoder = Encoder("mine", Counting())
    assert open_encoder(encoder) is encoder


def test_photographs_without_an_encoder_get_descriptors_and_small_images_do_not():

    rng = np.random.default_rng(0)
    for side, described in ((64, False), (65, True)):
        data = Dataset.from_arrays(rng.integers(0, 255, (6, side, side, 3), dtype=np.uint8), np.arange(6) % 2)
        found = data.with_descriptors()
        assert (found.encoder, found.inputs.ndim) == (("descriptors", 2) if described else ("", 4))
    own = data.encoded(lambda images: images.mean(axis=(1, 2)))
    assert own.with_descriptors() is own


def test_descriptors_follow_the_angle_of_edges_and_not_the_brightness():
    ramp = np.tile(np.arange(0, 160, 2, dtype=np.uint8), (80, 1))
    images = np.stack([ramp, ramp + 40, ramp.T])[..., None].repeat(3, axis=3)
    gradients = encode(images, "descriptors")[:, : 7 * 7 * 36]
    assert np.allclose(gradients[0], gradients[1], atol=1e-3)
    assert np.abs(gradients[0] - gradients[2]).max() > 0.2
