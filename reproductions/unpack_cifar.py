"""Join CIFAR-10 from sheets of 1,000 images (lossless WebP): python3 unpack_cifar.py OUT FOLDER ..."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

out, folders = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
sheets = {path.stem: path for folder in folders for path in folder.glob("*.webp")}
labels = next(np.load(folder / "labels.npy") for folder in folders if (folder / "labels.npy").is_file())
images, kept = [], []
for name in sorted(sheets):
    sheet = np.asarray(Image.open(sheets[name]).convert("RGB"))
    images.append(sheet.reshape(25, 32, 40, 32, 3).transpose(0, 2, 1, 3, 4).reshape(1000, 32, 32, 3))
    kept.append(np.arange(1000) + 1000 * int(name))
x, rows = np.concatenate(images), np.concatenate(kept)
y, train = labels[rows].astype(np.int64), rows < 50_000
if train.all():  # only a part was brought: the last tenth plays the test set
    train = np.arange(len(rows)) < 0.9 * len(rows)
np.savez(out, x_train=x[train], y_train=y[train], x_test=x[~train], y_test=y[~train])
print(f"{out}: {train.sum():,} to train, {(~train).sum():,} to test")
