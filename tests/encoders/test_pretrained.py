"""Models of transformers, sentence-transformers and ONNX from local folders, against what these libraries give."""

import json

import numpy as np
import pytest

from hardpan.encoders import encode, open_encoder
from hardpan.errors import InputError

TEXTS = ["the cat sat", "a dog", "the cat sat on the mat", ""]
IMAGES = np.random.default_rng(0).integers(0, 255, (5, 20, 24, 3), dtype=np.uint8)
WORDS = ["[PAD]", "[UNK]", "the", "cat", "sat", "a", "dog", "on", "mat"]


def word_tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A tiny model of texts that was never trained."""
    import torch
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **sizes)).save_pretrained(folder)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    PreTrainedTokenizerFast(tokenizer_object=word_tokenizer(), **special).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """A tiny model of images that was never trained."""
    import torch
    from transformers import ViTConfig, ViTModel

    folder = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    ViTModel(ViTConfig(image_size=32, patch_size=8, **sizes)).save_pretrained(folder)
    settings = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder


def test_texts_are_the_mean_over_their_own_tokens(bert):
    import torch
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(bert).eval(), AutoTokenizer.from_pretrained(bert)
    found = encode(TEXTS, open_encoder(str(bert), device="cpu"))
    for text, vector in zip(TEXTS[:3], found, strict=False):
        with torch.no_grad():
            alone = model(**tokenizer([text], return_tensors="pt")).last_hidden_state[0].mean(dim=0)
        assert np.allclose(vector, alone.numpy(), atol=1e-5)


def test_a_folder_of_sentence_transformers_is_used_as_that_library_does(bert, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    words = Transformer(str(bert))
    whole = SentenceTransformer(modules=[words, Pooling(16, pooling_mode="max"), Normalize()], device="cpu")
    whole.save(str(tmp_path / "model"))
    found = encode(TEXTS[:3], open_encoder(tmp_path / "model", device="cpu"))
    assert np.allclose(found, whole.encode(TEXTS[:3]), atol=1e-5)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)


def test_images_are_prepared_by_the_processor_of_the_folder(vit):
    import torch
    from transformers import AutoImageProcessor, AutoModel

    model, processor = AutoModel.from_pretrained(vit).eval(), AutoImageProcessor.from_pretrained(vit)
    with torch.no_grad():
        expected = model(**processor(images=list(IMAGES), return_tensors="pt")).pooler_output.numpy()
    assert np.allclose(encode(IMAGES, open_encoder(vit, device="cpu", batch=2)), expected, atol=1e-5)
    half = encode(IMAGES, open_encoder(vit, device="cpu", half=True))
    assert np.allclose(half, expected, atol=0.02)
    assert open_encoder(vit, half=True).identity != open_encoder(vit).identity


def test_grey_images_are_encoded_as_equal_channels(vit):
    grey = IMAGES[..., 0]
    expected = encode(np.repeat(grey[..., None], 3, axis=3), open_encoder(vit, device="cpu"))
    assert np.array_equal(encode(grey, open_encoder(vit, device="cpu")), expected)


def test_the_second_time_no_model_is_loaded_and_other_weights_are_another_encoder(vit, tmp_path, monkeypatch):
    import shutil

    from hardpan.encoders.pretrained import PretrainedModel

    folder = tmp_path / "copy"
    shutil.copytree(vit, folder)
    first = encode(IMAGES, open_encoder(folder, device="cpu"), cache=tmp_path / "cache")
    with monkeypatch.context() as patch:
        patch.delattr(PretrainedModel, "__call__")
        assert np.array_equal(encode(IMAGES, open_encoder(folder), cache=tmp_path / "cache"), first)
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert open_encoder(folder).identity != open_encoder(vit).identity


def test_nothing_is_fetched_unless_allowed_and_pickled_weights_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    for name in ("hardpan-tests/no-such-model", tmp_path, tmp_path.parent):
        with pytest.raises(InputError) as refused:
            open_encoder(name)
        assert refused.value.argument == "encoder"


def onnx_file(path, nodes, inputs, outputs, constants=()):
    from onnx import helper, save

    graph = helper.make_graph(nodes, "encoder", inputs, outputs, list(constants))
    opset = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


def test_an_onnx_file_of_images_gets_standardised_pixels(tmp_path):
    from onnx import TensorProto, helper

    size, out = ["n", 3, 20, 24], ["n", 3, 1, 1]
    onnx_file(
        tmp_path / "mean.onnx",
        [helper.make_node("GlobalAveragePool", ["pixels"], ["means"])],
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, size)],
        [helper.make_tensor_value_info("means", TensorProto.FLOAT, out)],
    )
    means = IMAGES.mean(axis=(1, 2)) / 255
    imagenet = (means - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    assert np.allclose(encode(IMAGES, str(tmp_path / "mean.onnx")), imagenet, atol=1e-4)
    settings = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    assert np.allclose(encode(IMAGES, str(tmp_path / "mean.onnx")), 2 * means - 1, atol=1e-4)
    with pytest.raises(InputError) as refused:
        encode(TEXTS, str(tmp_path / "mean.onnx"))
    assert refused.value.argument == "encoder"


def test_an_onnx_file_of_texts_gets_tokens_and_the_mean_leaves_padding_out(tmp_path):
    from onnx import TensorProto, helper, numpy_helper

    table = np.random.default_rng(0).normal(size=(len(WORDS), 4)).astype(np.float32)
    tokens = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "t"])
        for name in ("input_ids", "attention_mask")
    ]
    onnx_file(
        tmp_path / "words.onnx",
        [helper.make_node("Gather", ["table", "input_ids"], ["states"])],
        tokens,
        [helper.make_tensor_value_info("states", TensorProto.FLOAT, ["n", "t", 4])],
        [numpy_helper.from_array(table, "table")],
    )
    word_tokenizer().save(str(tmp_path / "tokenizer.json"))
    found = encode(TEXTS[:3], str(tmp_path / "words.onnx"))
    expected = [table[[WORDS.index(word) for word in text.split()]].mean(axis=0) for text in TEXTS[:3]]
    assert np.allclose(found, expected, atol=1e-6)
