"""Texts and images as vectors: the encoders that people have, with a cache of what they gave.

encoding.py     an encoder from its name, the vectors of examples and their cache, descriptors without training
pretrained.py   models of transformers and sentence-transformers, ONNX files
"""

from hardpan.encoders.encoding import DESCRIPTORS, Encoder, encode, open_encoder
from hardpan.lazy import exports

exports(__name__)
