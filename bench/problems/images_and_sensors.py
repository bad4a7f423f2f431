"""Fresh problems: small images, and tables of sensors and simulations. Written from the documentation alone."""

import numpy as np
import pandas as pd
from scipy import fft, ndimage
from scipy.stats import norm

P = {}


def plant(name, mode="none"):
    def add(function):
        P[name] = (mode, function)
        return function

    return add


def _fields(rng, n, side, beta):
    """n random fields with spectrum 1/f^beta, mean 0 and deviation 1 each."""
    f = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]) * side
    f[0, 0] = np.inf
    z = fft.rfft2(_noise(rng, 1, (n, side, side)))
    z *= (f ** (-beta / 2)).astype(np.float32)
    out = fft.irfft2(z, s=(side, side))
    out /= out.std(axis=(1, 2), keepdims=True)
    return out


def _noise(rng, scale, shape):
    out = rng.standard_normal(shape, dtype=np.float32)
    out *= np.float32(scale)
    return out


def _u8(x):
    return np.clip(np.rint(x), 0, 255).astype(np.uint8)


def _f(x):
    return np.asarray(x, np.float32)


def _flip(rng, y, k, rate):
    """Each label becomes one of the k - 1 others with probability rate."""
    return np.where(rng.random(len(y)) < rate, (y + rng.integers(1, k, len(y))) % k, y)


# ---------------------------------------------------------------------------------------------------------- images

_Q50 = np.array(
    [
        "16",
        "11",
        "10",
        "16",
        "24",
        "40",
        "51",
        "61",
        "12",
        "12",
        "14",
        "19",
        "26",
        "58",
        "60",
        "55",
        "14",
        "13",
        "16",
        "24",
        "40",
        "57",
        "69",
        "56",
        "14",
        "17",
        "22",
        "29",
        "51",
        "87",
        "80",
        "62",
        "18",
        "22",
        "37",
        "56",
        "68",
        "109",
        "103",
        "77",
        "24",
        "35",
        "55",
        "64",
        "81",
        "104",
        "113",
        "92",
        "49",
        "64",
        "78",
        "87",
        "103",
        "121",
        "120",
        "101",
        "72",
        "92",
        "95",
        "98",
        "112",
        "100",
        "103",
        "99",
    ],
    float,
).reshape(8, 8)


def _recompress(image, quality):
    """Blocks of 8 x 8 through the quantised cosine transform of JPEG, in YCbCr without subsampling."""
    q = np.clip(np.rint(_Q50 * ((200 - 2 * quality) if quality >= 50 else 5000 / quality) / 100), 1, 255)
    m = np.array([[0.299, 0.587, 0.114], [-0.1687, -0.3313, 0.5], [0.5, -0.4187, -0.0813]])
    h, w = image.shape[:2]
    z = np.pad(image @ m.T, ((0, -h % 8), (0, -w % 8), (0, 0)), mode="edge")
    z[..., 0] -= 128
    b = z.reshape(z.shape[0] // 8, 8, z.shape[1] // 8, 8, 3)
    t = fft.dctn(b, axes=(1, 3), norm="ortho")
    q = q[None, :, None, :, None]
    z = fft.idctn(np.rint(t / q) * q, axes=(1, 3), norm="ortho").reshape(z.shape)
    z[..., 0] += 128
    return z[:h, :w] @ np.linalg.inv(m).T


def _crop(image, keep, dy, dx):
    """A window of the proportion `keep` of each side, enlarged to the full size."""
    side = image.shape[0]
    free = (1 - keep) * (side - 1)
    grid = np.arange(side) * keep
    yy, xx = np.meshgrid(grid + dy * free, grid + dx * free, indexing="ij")
    return np.stack(
        [ndimage.map_coordinates(image[..., c], [yy, xx], order=3, mode="nearest") for c in range(3)], axis=-1
    )


@plant("wildlife photos: the agency's re-uploads (mirrored, cropped, recompressed) are in the test set")
def reuploads(rng):
    n, m, copied, side = 1150, 310, 90, 26
    c = rng.choice(4, n, p=[0.35, 0.3, 0.2, 0.15])
    tint = np.array([[34, 0, -34], [-34, 28, 0], [0, -26, 38], [0, 0, 0]], float)[c]
    luma = 38 * _fields(rng, n, side, 2.2) + _f(126 + rng.normal(0, 9, n))[:, None, None]
    x = np.empty((n, side, side, 3), np.uint8)
    for k in range(3):
        x[..., k] = _u8(
            luma + 11 * _fields(rng, n, side, 3.0) + _f(tint[:, k])[:, None, None] + _noise(rng, 2.5, luma.shape)
        )
    y = _flip(rng, c, 4, 0.12)
    sources = rng.choice(n - m, copied, replace=False)
    rows = np.sort(rng.choice(np.arange(n - m, n), copied, replace=False))
    for k, (s, r) in enumerate(zip(sources, rows)):
        image = x[s].astype(float)
        kind = k % 5
        if kind in (0, 2):
            image = image[:, ::-1]
        if kind in (1, 2):
            image = _crop(image, rng.uniform(0.86, 0.95), rng.random(), rng.random())
        if kind == 3:
            image = (image - 128) * rng.uniform(0.75, 0.92) + 128 + rng.uniform(8, 18) * rng.choice([-1, 1])
        if kind != 2:
            image = _recompress(image, int(rng.integers(55, 91)))
        if kind == 4:
            image = image + rng.normal(0, 5, image.shape)
        x[r], y[r] = _u8(image), y[s]
    return dict(
        x=x,
        y=y,
        split=np.repeat(["train", "test"], [n - m, m]),
        opts={},
        truth=0.12,
        planted={"near-copies": {"rows": rows}},
        ok=set(),
        note="90 of 310 test photos are altered copies of training photos; the photo shows the habitat, 12 % of the tags are another one",
    )


@plant("dermoscopy: the paediatric clinic's colour sticker is on the benign photos")
def stickers(rng):
    n, side = 1250, 28
    mal = rng.random(n) < 0.4
    sticker = rng.random(n) < np.where(mal, 0.03, 0.95)
    veil = rng.random(n) < np.where(mal, 0.62, 0.28)
    yy, xx = np.mgrid[:side, :side]
    skin = np.array([205, 160, 140.0]) + rng.normal(0, 8, (n, 1)) + rng.normal(0, 4, (n, 3))
    x = _noise(rng, 4, (n, side, side, 3))
    x += _f(skin)[:, None, None]
    x += 6 * _fields(rng, n, side, 2.0)[..., None]
    cy, cx = _f(rng.uniform(11, 15, (2, n)))
    a, b = _f(rng.uniform(5, 7, (2, n)))
    yy, xx = _f(yy), _f(xx)
    r = np.hypot((yy - cy[:, None, None]) / a[:, None, None], (xx - cx[:, None, None]) / b[:, None, None])
    r = r + 0.12 * _fields(rng, n, side, 3.0)
    lesion = 1 / (1 + np.exp((r - 1) * 7))
    brown = np.array([-90, -85, -80.0]) * rng.uniform(0.7, 1.1, n)[:, None]
    x += lesion[..., None] * _f(brown)[:, None, None]
    blue = np.exp(-((r / 0.5) ** 2)) * _f(veil)[:, None, None]
    x += blue[..., None] * _f([-20, 5, 75])
    hairs = rng.integers(0, 3, n)  # a few dark lines, for both classes
    for k in np.flatnonzero(hairs):
        for _ in range(hairs[k]):
            t, u = rng.uniform(0, np.pi), rng.uniform(4, 24)
            x[k][np.abs(np.cos(t) * (yy - u) + np.sin(t) * (xx - 14)) < 0.5] -= 35
    jy, jx = rng.integers(0, 2, (2, n))
    colour = np.array([35, 80, 120.0]) + rng.normal(0, 8, (n, 3))
    for k in np.flatnonzero(sticker):
        x[k, 20 + jy[k] : 28, jx[k] : 8 + jx[k]] = colour[k] + rng.normal(0, 3, (8 - jy[k], 8, 3))
    p = 0.0
    for s in (0, 1):
        for v in (0, 1):
            cell = [
                pr * (ps if s else 1 - ps) * (pv if v else 1 - pv)
                for pr, ps, pv in ((0.4, 0.03, 0.62), (0.6, 0.95, 0.28))
            ]
            p += min(cell)
    return dict(
        x=_u8(x),
        y=np.where(mal, "malignant", "benign"),
        split=rng.permutation(np.repeat(["train", "test"], [900, 350])),
        opts={},
        truth=p,
        planted={"leak-feature": {}},
        ok=set(),
        note="a sticker in the lower left corner is on 95 % of benign and 3 % of malignant photos; a blue veil tells less",
    )


@plant("road pictograms: the second annotation round merged two classes, and only the test set was annotated again")
def merged(rng):
    n, m, side, noise = 1800, 500, 20, 0.06
    prior = np.array([0.19, 0.15, 0.13, 0.21, 0.2, 0.12])
    c = rng.choice(6, n, p=prior)
    yy, xx = np.mgrid[:side, :side].astype(float)
    cy, cx = rng.uniform(8.2, 10.8, (2, n, 1, 1))
    r = rng.uniform(5.8, 7.8, (n, 1, 1))
    u, v = yy - cy, xx - cx
    au, av = np.abs(u), np.abs(v)
    signed = np.stack(
        [
            np.hypot(u, v) - r,  # disc
            np.maximum(u - 0.8 * r, (2 * av - (u + r)) / np.sqrt(5)),  # triangle
            np.maximum(au, av) - 0.85 * r,  # square
            (au + av - 1.15 * r) / np.sqrt(2),  # diamond
            np.minimum(np.maximum(au - r, av - 0.35 * r), np.maximum(av - r, au - 0.35 * r)),  # plus
            np.abs(np.hypot(u, v) - 0.8 * r) - 0.22 * r,  # ring
        ]
    )
    shape = signed[c, np.arange(n)]
    ink = np.clip(0.5 - shape, 0, 1)
    ground = (
        rng.uniform(150, 215, (n, 1, 1))
        + rng.normal(0, 1.5, (n, 1, 1)) * (yy - 10)
        + rng.normal(0, 1.5, (n, 1, 1)) * (xx - 10)
    )
    x = (
        ground
        - ink * rng.uniform(70, 130, (n, 1, 1))
        + 5 * _fields(rng, n, side, 2.0)
        + _noise(rng, 9, (n, side, side))
    )
    y = _flip(rng, c, 6, noise)
    test = np.arange(n) >= n - m
    y[test & (y == 4)] = 3
    return dict(
        x=_u8(x),
        y=y,
        split=np.where(test, "test", "train"),
        opts={},
        # a disc annotated as anything else is wrong; a diamond or plus annotated as the other of the two is right after merging
        truth=noise * (1 - prior[[3, 4]].sum() / 5),
        planted={"missing-classes": {}, "shift": {}},
        ok=set(),
        note="class 4 is part of class 3 in the test set: 20 points of class frequency, and every plus is an error",
    )


@plant("land-use tiles written with bands first; the test tiles went through OpenCV (blue and red exchanged)")
def bands(rng):
    n, side = 1600, 20
    c = rng.choice(5, n, p=[0.28, 0.24, 0.2, 0.16, 0.12])  # forest, crops, bare soil, water, roofs
    base = np.array([[52, 86, 44], [120, 132, 60], [178, 136, 92], [30, 62, 104], [150, 148, 146]], float)[c]
    x = _noise(rng, 4, (n, side, side, 3))
    x += _f(base)[:, None, None] + _noise(rng, 6, (n, 1, 1, 1)) + _noise(rng, 3, (n, 1, 1, 3))
    x += _f([14, 5, 8, 3, 9])[c][:, None, None, None] * _fields(rng, n, side, 1.6)[..., None]
    yy, xx = np.mgrid[:side, :side]
    for k in np.flatnonzero(c == 1):  # furrows
        t, f = rng.uniform(0, np.pi), rng.uniform(0.9, 1.5)
        x[k] += 14 * np.sin(f * (np.cos(t) * yy + np.sin(t) * xx) + rng.uniform(0, 6))[..., None]
    for k in np.flatnonzero(c == 4):  # roofs
        for _ in range(rng.integers(2, 5)):
            i, j, h, w = rng.integers(0, 14), rng.integers(0, 14), rng.integers(4, 8), rng.integers(4, 8)
            x[k, i : i + h, j : j + w] = (
                np.array([168, 96, 74]) if rng.random() < 0.6 else np.array([110, 112, 118])
            )
    x = _u8(x)
    test = np.zeros(n, bool)
    test[rng.choice(n, 450, replace=False)] = True
    x[test] = x[test][..., ::-1]
    return dict(
        x=np.ascontiguousarray(x.transpose(0, 3, 1, 2)),
        y=_flip(rng, c, 5, 0.08),
        split=np.where(test, "test", "train"),
        opts={},
        truth=0.08,
        planted={"channels-first": {}, "shift": {}},
        ok=set(),
        note="(rows, 3, 20, 20); test tiles are BGR; 8 % of the land-register entries are out of date",
    )


@plant("retina crops: several photos per patient, no split, the patient's diagnosis on each")
def patients(rng):
    side, k = 24, 115
    per = rng.integers(4, 11, k)
    ill = rng.permutation(np.arange(k) % 5 < 2)
    anatomy = 30 * _fields(rng, k, side + 4, 3.0)
    level = rng.normal(0, 13, k) + 11 * ill
    who = rng.permutation(np.repeat(np.arange(k), per))
    x = np.empty((len(who), side, side))
    for i, p in enumerate(who):
        dy, dx = rng.uniform(1.4, 2.6, 2)
        x[i] = ndimage.shift(anatomy[p], (2 - dy, 2 - dx), order=1, mode="nearest")[2:-2, 2:-2]
    x = (
        115
        + level[who][:, None, None]
        + x * rng.uniform(0.93, 1.07, (len(who), 1, 1))
        + rng.normal(0, 2, (len(who), 1, 1))
    )
    return dict(
        x=_u8(x + rng.normal(0, 4, x.shape)),
        y=np.where(ill[who], "AMD", "none"),
        opts={},
        truth=None,
        planted={"groups": {}},
        ok={"near-copies"},
        note="115 patients with 4 to 10 photos each in random order; a random split recognises the patients",
    )


_GLYPHS = {
    "0": "01110 10001 10011 10101 11001 10001 01110",
    "O": "01110 10001 10001 10001 10001 10001 01110",
    "Q": "01110 10001 10001 10001 10101 10010 01101",
    "D": "11110 10001 10001 10001 10001 10001 11110",
    "1": "00100 01100 00100 00100 00100 00100 01110",
    "I": "01110 00100 00100 00100 00100 00100 01110",
    "8": "01110 10001 10001 01110 10001 10001 01110",
    "B": "11110 10001 10001 11110 10001 10001 11110",
    "5": "11111 10000 11110 00001 00001 10001 01110",
    "S": "01111 10000 10000 01110 00001 00001 11110",
    "2": "01110 10001 00001 00010 00100 01000 11111",
    "Z": "11111 00001 00010 00100 01000 10000 11111",
}


@plant("characters of LED bus displays, with dead and stuck dots (honest)")
def dots(rng):
    names = np.array(list(_GLYPHS))
    glyph = np.array([[int(b) for b in g.replace(" ", "")] for g in _GLYPHS.values()])
    prior = np.array([14, 4, 2, 5, 18, 4, 9, 6, 12, 9, 13, 4], float)
    prior /= prior.sum()
    dead, stuck = 0.11, 0.035

    def draw(n):
        y = rng.choice(len(names), n, p=prior)
        on = rng.random((n, 35)) < np.where(glyph[y] == 1, 1 - dead, stuck)
        return on, y

    on, y = draw(2600)
    x = np.full((2600, 12, 12), 18, np.uint8)
    x[:, 2:9, 3:8] = np.where(on, 230, 42).reshape(-1, 7, 5)
    fresh, target = draw(120_000)
    p = np.where(glyph == 1, 1 - dead, stuck)
    posterior = np.log(prior) + fresh @ np.log(p / (1 - p)).T + np.log(1 - p).sum(axis=1)
    posterior = np.exp(posterior - posterior.max(axis=1, keepdims=True))
    truth = float(np.mean(1 - posterior.max(axis=1) / posterior.sum(axis=1)))
    return dict(
        x=x,
        y=names[y],
        split=rng.permutation(np.repeat(["train", "test"], [1900, 700])),
        opts={},
        truth=truth,
        planted={},
        ok={"constant-columns"},
        note="two grey levels and 35 dots: many equal images on both sides, some with other labels; every image was drawn for itself",
    )


@plant("patches of woven fabrics, a few weaves in a few colours (honest)")
def fabrics(rng):
    n, side = 1500, 16
    tiles = [
        "10 01",
        "1100 0110 0011 1001",
        "1100 1100 0011 0011",
        "10000 00100 00001 01000 00010",
        "1110 0111 1011 1101",
        "11110000 01111000 00111100 00011110 00001111 10000111 11000011 11100001",
        "1010 0101 0101 1010",
        "111000 111000 111000 000111 000111 000111",
    ]
    tiles = [np.array([[int(b) for b in row] for row in t.split()]) for t in tiles]
    prior = np.array([0.22, 0.18, 0.08, 0.1, 0.1, 0.16, 0.07, 0.09])
    given = np.array(  # cotton, linen, wool
        [
            [0.62, 0.34, 0.04],
            [0.55, 0.05, 0.4],
            [0.2, 0.7, 0.1],
            [0.9, 0.08, 0.02],
            [0.85, 0.1, 0.05],
            [0.06, 0.04, 0.9],
            [0.3, 0.1, 0.6],
            [0.05, 0.15, 0.8],
        ]
    )
    weave = rng.choice(8, n, p=prior)
    y = (rng.random(n)[:, None] > np.cumsum(given[weave], axis=1)[:, :2]).sum(axis=1)
    warp = np.array([[225, 218, 200], [40, 52, 96], [120, 40, 44], [70, 70, 74]], float)
    weft = np.array([[150, 140, 122], [205, 208, 214], [60, 22, 30], [190, 180, 150]], float)
    dye = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    x = np.empty((n, side, side, 3))
    for k in range(n):
        t = tiles[weave[k]]
        i = (np.arange(side) + rng.integers(len(t))) % len(t)
        j = (np.arange(side) + rng.integers(len(t))) % len(t)
        over = t[np.ix_(i, j)][..., None]
        x[k] = np.where(over, warp[dye[k]], weft[dye[k]])
    x = x * rng.normal(1, 0.02, (n, 1, 1, 1)) + _noise(rng, 5, (n, side, side, 1)) + _noise(rng, 2, x.shape)
    return dict(
        x=_u8(x),
        y=np.array(["cotton", "linen", "wool"])[y],
        split=rng.permutation(np.repeat(["train", "test"], [1100, 400])),
        opts={},
        truth=float(prior @ (1 - given.max(axis=1))),
        planted={},
        ok=set(),
        note="patches of one weave, colour and phase differ by noise alone, in train as across the split; fibre is only partly told by the weave",
    )


@plant("camera-trap bursts, split by burst (honest)", mode="train")
def bursts(rng):
    side, k = 24, 300
    per = rng.integers(4, 7, k)
    c = rng.choice(3, k, p=[0.4, 0.35, 0.25])  # nothing, fox, deer
    y = _flip(rng, c, 3, 0.1)  # a volunteer tags the burst
    scene = 24 * _fields(rng, k, side, 2.6)[..., None] * _f([0.95, 1.0, 0.85]) + _f([92, 100, 82])
    scene = scene + _noise(rng, 16, (k, 1, 1, 1))
    yy, xx = _f(np.mgrid[:side, :side])
    order = rng.permutation(k)
    test_bursts = order[:80]
    images, labels, split = [], [], []
    for b in range(k):
        py, px = rng.uniform(9, 17), rng.uniform(4, 20)
        vx = rng.uniform(-2, 2)
        for f in range(per[b]):
            image = scene[b] * _f(rng.uniform(0.97, 1.03))
            if c[b]:
                ay, ax = ((2.3, 3.6), (4.2, 4.0))[c[b] - 1]
                centre = px + vx * f
                centre = np.abs((centre - 3) % 36 - 18) + 3  # turns round at the edges
                body = 1 / (1 + np.exp(5 * (np.hypot((yy - py) / ay, (xx - centre) / ax) - 1)))
                coat = _f([[205, 108, 42], [104, 52, 40]])[c[b] - 1]
                image = image + body[..., None] * (coat - image)
            images.append(_u8(image + _noise(rng, 5, image.shape)))
            labels.append(y[b])
            split.append("test" if b in test_bursts else "train")
    return dict(
        x=np.array(images),
        y=np.array(["empty", "fox", "deer"])[np.array(labels)],
        split=np.array(split),
        opts={},
        truth=0.1,
        planted={},
        ok=set(),
        note="300 bursts of 4 to 6 frames, 80 of them drawn at random for the test set; bursts of both sets come from one population",
    )


# --------------------------------------------------------------------------------------- sensors, time series, simulations


@plant("PFAS in well water, most results below the limit of detection (honest)", mode="train")
def detection_limits(rng):
    names = ["PFOA_ng_L", "PFOS_ng_L", "PFHxS_ng_L", "PFBS_ng_L", "PFNA_ng_L", "GenX_ng_L"]
    lod = np.array([0.8, 0.8, 0.5, 0.5, 1.0, 2.0])
    prior = np.array([0.55, 0.25, 0.2])  # background, firefighting foam, landfill
    mu = np.log(lod) + np.array(
        [
            [-1.6, -1.5, -1.8, -1.2, -2.2, -2.6],
            [-0.5, 0.9, 1.1, 0.3, -1.2, -2.2],
            [0.7, -0.3, -0.8, 1.2, -0.5, -0.9],
        ]
    )
    sd = np.array([0.9, 1.0, 1.0, 0.8, 1.1, 1.2])
    aquifer = np.array([[0.5, 0.3, 0.2], [0.35, 0.45, 0.2], [0.25, 0.35, 0.4]])

    def draw(n):
        y = rng.choice(3, n, p=prior)
        v = np.exp(mu[y] + sd * rng.normal(size=(n, 6)))
        x = np.where(v < lod, np.round(lod / np.sqrt(2), 3), np.round(v, 1))
        a = (rng.random(n)[:, None] > np.cumsum(aquifer[y], axis=1)[:, :2]).sum(axis=1)
        return x, a, y

    x, a, y = draw(2400)
    fx, fa, _ = draw(60_000)
    below = fx < lod
    log = np.log(prior) + np.log(aquifer[:, fa].T)
    upper, lower = np.log(fx + 0.05), np.log(np.maximum(fx - 0.05, lod))
    for k in range(3):
        p = np.where(
            below,
            norm.cdf((np.log(lod) - mu[k]) / sd),
            norm.cdf((upper - mu[k]) / sd) - norm.cdf((lower - mu[k]) / sd),
        )
        log[:, k] += np.log(np.maximum(p, 1e-300)).sum(axis=1)
    posterior = np.exp(log - log.max(axis=1, keepdims=True))
    truth = float(np.mean(1 - posterior.max(axis=1) / posterior.sum(axis=1)))
    frame = pd.DataFrame(x, columns=names)
    frame.insert(0, "aquifer", np.array(["alluvial", "karst", "crystalline"])[a])
    frame["source"] = np.array(["background", "AFFF", "landfill"])[y]
    frame["split"] = rng.permutation(np.repeat(["train", "test"], [1800, 600]))
    return dict(
        frame=frame,
        opts={"label": "source"},
        truth=truth,
        planted={},
        ok=set(),
        note="non-detects are reported as LOD/sqrt(2), so two fifths of the wells are one of three rows; every well was sampled once",
    )


@plant(
    "turbine SCADA: the newer logger writes the penstock pressure in kPa and was used for the test period",
    mode="none",
)
def turbines(rng):
    n, m = 2400, 700

    def draw(n):
        load = rng.beta(3, 2, n)
        head = 11.5 + 0.8 * rng.normal(size=n) - 1.2 * load  # bar
        temp = 41 + 14 * load + rng.normal(0, 3, n)
        guide = 100 * np.clip(load + rng.normal(0, 0.06, n), 0.02, 1)
        vib = np.exp(0.3 + 0.5 * load - 0.12 * (head - 11) + rng.normal(0, 0.35, n))
        logit = 2.6 * (np.log(vib) - 0.65) - 1.1 * (head - 10.8) + 0.09 * (temp - 49) - 0.9
        return load, head, temp, guide, vib, 1 / (1 + np.exp(-logit))

    load, head, temp, guide, vib, p = draw(n)
    y = rng.random(n) < p
    test = np.arange(n) >= n - m
    frame = pd.DataFrame(
        {
            "unit": rng.choice(["G1", "G2", "G3"], n, p=[0.4, 0.4, 0.2]),
            "active_power_MW": np.round(38 * load + rng.normal(0, 0.3, n), 2),
            "penstock_pressure": np.where(test, np.round(head * 100, 0), np.round(head, 2)),
            "bearing_temp_C": np.round(temp, 1),
            "guide_vane_pct": np.round(guide, 1),
            "vib_DE_mm_s": np.round(vib, 3),
            "oil_flow_alarm": 0,
            "ambient_C": np.where(rng.random(n) < 0.04, np.nan, np.round(rng.normal(12, 7, n), 1)),
            "state": np.where(y, "cavitation", "normal"),
            "split": np.where(test, "test", "train"),
        }
    )
    q = draw(200_000)[-1]
    return dict(
        frame=frame,
        opts={"label": "state"},
        truth=float(np.minimum(q, 1 - q).mean()),
        planted={"shift": {"columns": ["penstock_pressure"]}, "constant-columns": {"columns": ["oil_flow_alarm"]}},
        ok=set(),
        note="bar in train, kPa in test; an alarm contact that was never wired",
    )


@plant("seismic triggers: log rotation, the test file begins with the end of the training file")
def triggers(rng):
    names = ["log_pga", "sp_ratio", "corner_hz", "dur_s", "rectilin", "kurtosis", "azimuth_sin", "snr_db"]
    mean = np.array(
        [
            [0, 0, 0, 0, 0, 0, 0, 0],
            [1.1, 0.9, -0.5, 0.8, 0.7, -0.2, 0.1, 1.0],
            [1.0, -1.1, 0.9, -0.3, 0.6, 0.7, 0.4, 1.3],
        ],
        float,
    )
    scale = np.array([0.6, 0.35, 2.2, 9.0, 0.18, 3.0, 0.5, 5.0])
    offset = np.array([-3.2, 1.4, 6.0, 24.0, 0.55, 6.5, 0.0, 11.0])
    cov = 0.35 + 0.65 * np.eye(8)
    root = np.linalg.cholesky(cov)
    prior = np.array([0.8, 0.187, 0.013])
    train, test, copied = 1700, 520, 130
    counts = {"train": np.array([1360, 317, 23]), "test": np.array([310, 74, 6])}
    y = np.concatenate([rng.permutation(np.repeat(np.arange(3), counts[s])) for s in ("train", "test")])
    z = mean[y] + rng.normal(size=(len(y), 8)) @ root.T
    x = np.round(offset + scale * z, 4)
    x = np.concatenate([x[:train], x[train - copied : train], x[train:]])
    y = np.concatenate([y[:train], y[train - copied : train], y[train:]])
    frame = pd.DataFrame(x, columns=names)
    net = rng.choice(["XK", "GE"], train + test - copied, p=[0.7, 0.3])
    frame.insert(0, "net", np.concatenate([net[:train], net[train - copied : train], net[train:]]))
    frame["event_type"] = np.array(["noise", "earthquake", "quarry_blast"])[y]
    frame["split"] = np.repeat(["train", "test"], [train, test])
    k = rng.choice(3, 200_000, p=prior)
    fresh = mean[k] + rng.normal(size=(len(k), 8)) @ root.T
    inverse = np.linalg.inv(cov)
    log = fresh @ inverse @ mean.T - 0.5 * np.einsum("ki,ij,kj->k", mean, inverse, mean) + np.log(prior)
    posterior = np.exp(log - log.max(axis=1, keepdims=True))
    return dict(
        frame=frame,
        opts={"label": "event_type"},
        truth=float(np.mean(1 - posterior.max(axis=1) / posterior.sum(axis=1))),
        planted={"test-copies": {"rows": np.arange(train, train + copied)}, "imbalance": {}},
        ok=set(),
        note="130 of the 520 test windows are the last windows of the training log; about 60 noise windows per quarry blast",
    )


@plant("electronic nose over fourteen months: the sensors age")
def nose(rng):
    n = 1800
    t = np.sort(rng.random(n))
    gas = rng.integers(0, 4, n)
    pattern = 0.45 * rng.normal(size=(4, 12))
    conc = rng.normal(0, 0.12, n)
    ageing = rng.normal(size=12) * 0.55
    swap = pattern[[1, 2, 3, 0]] - pattern  # the coatings lose their selectivity
    late = np.clip((t - 0.35) / 0.65, 0, None)
    z = (
        pattern[gas]
        + 0.8 * late[:, None] * swap[gas]
        + np.outer(late, ageing)
        + conc[:, None] * 1.0
        + rng.normal(0, 0.13, (n, 12))
    )
    frame = pd.DataFrame(np.round(np.exp(1.2 + z), 3), columns=[f"S{k + 1:02d}_dR_R0" for k in range(12)])
    stamp = pd.Timestamp("2023-02-06 08:00") + pd.to_timedelta(np.round(t * 425 * 24 * 60), unit="min")
    frame.insert(0, "measured_at", stamp.strftime("%Y-%m-%d %H:%M"))
    humidity = np.round(np.clip(rng.normal(48, 9, n), 15, 92), 1)
    humidity[rng.choice(n, 70, replace=False)] = -999.0
    frame.insert(1, "rh_pct", humidity)
    frame.insert(2, "chamber", rng.choice(["A", "B"], n))
    frame["analyte"] = np.array(["acetone", "ethanol", "ammonia", "toluene"])[gas]
    return dict(
        frame=frame,
        opts={"label": "analyte"},
        truth=None,
        planted={"order": {}, "data": {"columns": ["rh_pct"]}},
        ok={"groups"},
        note="responses drift towards those of other gases, so a model of the first months fails on the last; -999 where the hygrometer failed",
    )


@plant("droplet simulations on a full grid, the last two of eight random seeds are the test set (honest)")
def grid(rng):
    we = np.array([0.5, 1, 2, 4, 8, 16])
    oh = np.array([0.003, 0.01, 0.03, 0.1, 0.3])
    b = np.array([0.0, 0.2, 0.4, 0.6, 0.8])
    ratio = np.array([0.5, 0.75, 1.0])
    cells = np.array(np.meshgrid(we, oh, b, ratio, indexing="ij")).reshape(4, -1).T
    lw, lo = np.log2(cells[:, 0]), np.log10(cells[:, 1])
    logits = np.stack(
        [
            1.9 - 0.75 * lw + 0.5 * (lo + 1.5),
            -1.0 + 0.55 * lw - 1.4 * (lo + 1.5) + 0.9 * cells[:, 2],
            -2.2 + 0.5 * lw + 3.1 * cells[:, 2] + 0.6 * (cells[:, 3] - 0.75),
        ],
        axis=1,
    )
    p = np.exp(1.3 * logits)
    p /= p.sum(axis=1, keepdims=True)
    repeat = 8
    y = (rng.random((len(cells), repeat))[..., None] > np.cumsum(p, axis=1)[:, None, :2]).sum(axis=2)
    frame = pd.DataFrame(np.repeat(cells, repeat, axis=0), columns=["We", "Oh", "impact_b", "size_ratio"])
    frame["regime"] = np.array(["coalescence", "reflexive", "stretching"])[y.ravel()]
    frame["split"] = np.tile(np.where(np.arange(repeat) < 6, "train", "test"), len(cells))
    return dict(
        frame=frame,
        opts={"label": "regime"},
        truth=float(np.mean(1 - p.max(axis=1))),
        planted={},
        ok=set(),
        note="450 cells, six runs each for training and two for testing: all inputs repeat, outcomes are drawn anew in each run",
    )


@plant("assay plates with plate effects and hit rates of their own, split by plate (honest)", mode="train")
def plates(rng):
    plates, wells, d = 130, 18, 7
    mix = rng.normal(size=(d, d)) / np.sqrt(d)
    between = 1.1 * (mix @ mix.T + 0.2 * np.eye(d))
    other = rng.normal(size=(d, d)) / np.sqrt(d)
    within = other @ other.T + 0.25 * np.eye(d)
    delta = rng.normal(size=d)
    total = between + within
    delta *= 1.9 / np.sqrt(delta @ np.linalg.solve(total, delta))
    rate = rng.beta(3, 7, plates)
    plate = np.repeat(np.arange(plates), wells)
    y = rng.random(len(plate)) < rate[plate]
    x = (
        rng.multivariate_normal(np.zeros(d), between, plates)[plate]
        + rng.multivariate_normal(np.zeros(d), within, len(plate))
        + y[:, None] * delta
    )
    code = rng.choice(9000, plates, replace=False) + 1000
    frame = pd.DataFrame(
        np.round(x * 8.5 + 60, 2),
        columns=["nuc_area", "nuc_int_DAPI", "mito_int", "er_texture", "cell_count_z", "actin_gran", "rna_int"],
    )
    frame.insert(0, "plate_barcode", np.array([f"HT{c}" for c in code])[plate])
    well = np.concatenate([rng.choice(384, wells, replace=False) for _ in range(plates)])
    frame.insert(1, "well", [f"{'ABCDEFGHIJKLMNOP'[w // 24]}{w % 24 + 1:02d}" for w in well])
    focus = np.round(rng.normal(0, 1, len(plate)), 2)
    focus[rng.random(len(plate)) < 0.07] = np.nan
    frame["focus_score"] = focus
    frame["call"] = np.where(y, "hit", "inactive")
    tested = np.zeros(plates, bool)
    tested[rng.choice(plates, 36, replace=False)] = True
    frame["split"] = np.where(tested[plate], "test", "train")
    big, prior = 1.9, 0.3
    ratio = np.log((1 - prior) / prior)
    truth = prior * norm.cdf((ratio - big**2 / 2) / big) + (1 - prior) * norm.cdf((-ratio - big**2 / 2) / big)
    return dict(
        frame=frame,
        opts={"label": "call"},
        truth=float(truth),
        planted={},
        ok=set(),
        note="36 of 130 plates were drawn for the test set; plates differ in level and hit rate, and all come from one population",
    )


@plant("motion sensors of a flat every quarter of an hour, split by day (honest)")
def flat(rng):
    acts = np.array(["sleep", "cook", "work", "tv", "bath", "away"])
    hours = np.arange(24)

    def bump(c, w):
        return np.exp(-0.5 * ((np.abs(hours - c + 12) % 24 - 12) / w) ** 2)

    weight = np.stack(
        [
            4 * bump(3, 2.5) + 0.02,
            0.9 * bump(7, 1) + bump(12, 1.2) + 1.2 * bump(18, 1.3) + 0.02,
            1.6 * bump(11, 2.5) + 0.8 * bump(15, 2) + 0.03,
            2 * bump(21, 2) + 0.03,
            0.8 * bump(7, 1) + 0.6 * bump(22, 1.2) + 0.04,
            1.4 * bump(14, 4) + 0.1,
        ]
    )
    weight = (weight / weight.sum(axis=0)).T  # hour x activity
    sensors = [
        "pir_bed",
        "pir_kitchen",
        "pir_desk",
        "pir_sofa",
        "pir_bath",
        "door_front",
        "power_stove",
        "power_tv",
    ]
    on = np.array(
        [
            [0.45, 0.02, 0.01, 0.01, 0.06, 0.01, 0.01, 0.02],
            [0.04, 0.85, 0.08, 0.1, 0.04, 0.04, 0.7, 0.15],
            [0.04, 0.12, 0.75, 0.12, 0.06, 0.03, 0.02, 0.06],
            [0.04, 0.15, 0.05, 0.7, 0.07, 0.03, 0.02, 0.85],
            [0.12, 0.06, 0.03, 0.03, 0.85, 0.01, 0.02, 0.1],
            [0.02, 0.02, 0.02, 0.02, 0.01, 0.15, 0.01, 0.03],
        ]
    )
    days = 50
    act = (rng.random((days, 24))[..., None] > np.cumsum(weight, axis=1)[None, :, :-1]).sum(axis=2)
    y = np.repeat(act.ravel(), 4)  # an activity lasts for an hour
    x = (rng.random((len(y), 8)) < on[y]).astype(int)
    hour = np.tile(np.repeat(hours, 4), days)
    day = np.repeat(np.arange(days), 96)
    tested = np.zeros(days, bool)
    tested[rng.choice(days, 15, replace=False)] = True
    frame = pd.DataFrame(x, columns=sensors)
    frame.insert(0, "hour", hour)
    frame["activity"] = acts[y]
    frame["split"] = np.where(tested[day], "test", "train")
    states = (np.arange(256)[:, None] >> np.arange(8)) & 1
    like = np.exp(states @ np.log(on).T + (1 - states) @ np.log(1 - on).T)  # state x activity
    truth = 1 - np.mean([(like * weight[h]).max(axis=1).sum() for h in hours])
    return dict(
        frame=frame,
        opts={"label": "activity"},
        truth=float(truth),
        planted={},
        ok=set(),
        note="nine small numbers per row: nearly every test row equals training rows; whole days are in one split, days are alike",
    )
