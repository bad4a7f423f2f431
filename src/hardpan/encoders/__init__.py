"""Texts and images as vectors: the encoders that people have, with a cache of what they gave.

encoding.py     an encoder from its name, the vectors of examples and their cache, descriptors without training
pretrained.py   models of transformers and sentence-transformers, ONNX files
"""

from typing import TYPE_CHECKING

from hardpan.lazy import exports

if TYPE_CHECKING:
    from hardpan.encoders.encoding import Encoder, encode, open_encoder

DESCRIPTORS = "descriptors"  # the name of the encoder that needs no training (encoding.describe_images)

exports(__name__)
