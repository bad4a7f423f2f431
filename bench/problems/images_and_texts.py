"""Fresh problems: small images, texts, unusual data. Written from the documentation alone."""

from itertools import combinations, product
from math import acos, erf, pi, sqrt

import numpy as np
import pandas as pd
from scipy import ndimage

P = {}


def plant(name, mode="none"):
    def add(function):
        P[name] = (mode, function)
        return function

    return add


def phi(z):
    return 0.5 * (1 + erf(z / sqrt(2)))


def random_split(rng, n, n_test):
    split = np.full(n, "train", dtype="<U5")
    split[rng.permutation(n)[:n_test]] = "test"
    return split


def u8(x):
    return np.clip(np.round(x), 0, 255).astype(np.uint8)


def pink(rng, side, power=1.0):
    """A picture whose spectrum falls like that of photographs, mean 0 and deviation 1."""
    f = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side)))
    f[0, 0] = np.inf
    z = np.fft.ifft2(np.fft.fft2(rng.normal(size=(side, side))) / np.maximum(f, 1 / side) ** power).real
    return (z - z.mean()) / z.std()


# ------------------------------------------------------------------ images


@plant("blood cells: one laboratory burns a scale bar into its pictures")
def scale_bar(rng):
    n, n_test, side = 900, 250, 24
    y = (rng.random(n) < 0.4).astype(int)
    lab = rng.random(n) < np.where(y == 1, 0.88, 0.04)
    r = np.clip(rng.normal(3.2 + 0.5 * y, 0.6), 1.8, 5.2)
    yy, xx = np.mgrid[:side, :side]
    x = np.empty((n, side, side))
    for i in range(n):
        cy, cx = 12 + rng.uniform(-3, 3, 2)
        inside = 1 / (1 + np.exp(3 * (np.hypot(yy - cy, xx - cx) - r[i])))
        x[i] = 185 - 95 * inside + rng.normal(0, 5, (side, side))
        if lab[i]:
            x[i, 21:23, 1:7] = 25 + rng.normal(0, 4, (2, 6))
    grid = np.linspace(0, 7, 7001)
    d = [np.exp(-((grid - m) ** 2) / 2 / 0.36) / 0.6 / sqrt(2 * pi) for m in (3.2, 3.7)]
    truth = sum(
        np.trapezoid(np.minimum(0.6 * a * d[0], 0.4 * b * d[1]), grid) for a, b in ((0.04, 0.88), (0.96, 0.12))
    )
    return dict(
        x=u8(x),
        y=np.array(["healthy", "infected"])[y],
        split=random_split(rng, n, n_test),
        opts={},
        truth=float(truth),
        planted={"leak-feature": {}},
        ok=set(),
        note="88 % of infected and 4 % of healthy cells come from the laboratory with the bar; the radius says little",
    )


@plant("leaf scans: a third of the test set are altered training scans")
def leaf_scans(rng):
    n_train, n_test, n_copies, side = 500, 160, 50, 32

    def leaf(h):
        texture = pink(rng, side, 1.0) * rng.uniform(22, 30)
        gain = rng.uniform(0.85, 1.15)
        base = np.array([120, 135, 85.0]) + h * np.array([7, -7, 0.0])
        return gain * (base + texture[..., None])

    n = n_train + n_test
    y = rng.integers(0, 2, n)
    h = rng.normal(1.5 * y - 0.75, 1.0)
    x = np.stack([leaf(v) for v in h])
    rows = n_train + rng.permutation(n_test)[:n_copies]
    for k, (row, source) in enumerate(zip(rows, rng.permutation(n_train)[:n_copies])):
        z = x[source]
        if k % 5 == 0:
            z = z[:, ::-1]
        elif k % 5 == 1:
            z = np.rot90(z)
        elif k % 5 == 2:
            z = ndimage.zoom(z[2:29, 3:30], (side / 27, side / 27, 1), order=1)
        elif k % 5 == 3:
            z = 0.8 * z + 30
        else:
            z = z[:, ::-1] + rng.normal(0, 4, z.shape)
        x[row], y[row] = z, y[source]
    return dict(
        x=u8(x),
        y=np.array(["healthy", "rust"])[y],
        split=np.repeat(["train", "test"], [n_train, n_test]),
        opts={},
        truth=phi(-0.75),
        planted={"near-copies": {"rows": np.sort(rows)}},
        ok=set(),
        note="50 test scans are training scans mirrored, turned, cropped, brighter or noisy; the class is in the hue only",
    )


SEGMENTS = [
    "1110111",
    "0010010",
    "1011101",
    "1011011",
    "0111010",
    "1101011",
    "1101111",
    "1010010",
    "1111111",
    "1111011",
]


@plant("photographed counters with broken segments (Breiman's LED digits, drawn)")
def led(rng):
    n, n_test = 2000, 500
    codes = np.array([[int(c) for c in s] for s in SEGMENTS])
    y = rng.integers(0, 10, n)
    on = codes[y] ^ (rng.random((n, 7)) < 0.1)
    places = [
        (1, 1, slice(2, 8)),
        (slice(2, 6), 1),
        (slice(2, 6), 8),
        (6, slice(2, 8)),
        (slice(7, 11), 1),
        (slice(7, 11), 8),
        (11, slice(2, 8)),
    ]
    places[0] = (1, slice(2, 8))
    x = np.full((n, 13, 10), 30, dtype=np.uint8)
    for k, (a, b) in enumerate(places):
        image = np.zeros((13, 10), bool)
        image[a, b] = True
        x[np.ix_(np.flatnonzero(on[:, k]), *(np.arange(13), np.arange(10)))] += (190 * image).astype(np.uint8)
    error = 0.0
    for pattern in product([0, 1], repeat=7):
        differs = (codes != np.array(pattern)).sum(axis=1)
        p = 0.1 * 0.1**differs * 0.9 ** (7 - differs)
        error += p.sum() - p.max()
    return dict(
        x=x,
        y=y,
        split=random_split(rng, n, n_test),
        opts={},
        truth=float(error),
        planted={},
        ok={"constant-columns"},
        note="honest: 128 pictures are possible, so that nearly all test pictures occur in train, many with other labels",
    )


@plant("spectrograms of two birds, whole evenings on one side of the split")
def birds(rng):
    sessions, calls, height, width = 84, 8, 24, 20
    f_axis, t_axis = np.mgrid[:height, :width]
    test_sessions = rng.permutation(sessions)[:24]
    x, y, where = [], [], []
    for s in range(sessions):
        hum = ndimage.gaussian_filter(rng.normal(size=(height, width)), 2.0)
        hum = (
            30 * hum / hum.std()
            + 15 * np.sin(np.arange(height) * rng.uniform(0.2, 0.9) + rng.uniform(0, 6))[:, None]
        )
        b = rng.normal()
        for _ in range(calls):
            c = rng.integers(0, 2)
            f = 11.5 + (3.2 * c - 1.6) + b + rng.normal(0, 1.2)
            ridge = np.exp(-((f_axis - f - rng.uniform(-0.15, 0.15) * (t_axis - 9.5)) ** 2) / 2 / 1.1**2)
            x.append(90 + hum + 75 * ridge + rng.normal(0, 6, (height, width)))
            y.append(c)
            where.append(s in test_sessions)
    order = rng.permutation(len(y))
    return dict(
        x=u8(np.array(x))[order],
        y=np.array(["reed", "marsh"])[np.array(y)][order],
        split=np.where(np.array(where)[order], "test", "train"),
        opts={},
        truth=phi(-1.6 / sqrt(1.2**2 + 1)),
        planted={},
        ok=set(),
        note="honest: 60 evenings for training, 24 others drawn at random for testing; each has its own hum and its own pitch",
    )


@plant("land cover tiles: forest entered as field")
def tiles(rng):
    n, n_test, side = 1200, 300, 16
    names = np.array(["field", "forest", "town", "water"])
    true = rng.integers(0, 4, n)
    x = np.empty((n, side, side, 3))
    for i, c in enumerate(true):
        light = rng.normal(0, 6)
        if c == 0:
            stripes = 12 * np.sin(np.arange(side) * rng.uniform(0.8, 1.4) + rng.uniform(0, 6))
            z = (
                np.array([165, 175, 95.0])
                + (stripes[:, None] if rng.random() < 0.5 else stripes[None, :])[..., None]
            )
        elif c == 1:
            z = np.array([60, 95, 50.0]) + 14 * rng.normal(size=(side, side, 1))
        elif c == 2:
            blocks = np.kron(rng.normal(size=(4, 4)), np.ones((4, 4)))
            z = np.array([140, 135, 140.0]) + 22 * blocks[..., None]
        else:
            z = np.array([40, 70, 120.0]) + 4 * pink(rng, side, 1.5)[..., None]
        x[i] = z + light + rng.normal(0, 4, (side, side, 3)) + rng.normal(0, 5, 3)
    wrong = (true == 1) & (rng.random(n) < 0.18)
    return dict(
        x=u8(x),
        y=names[np.where(wrong, 0, true)],
        split=random_split(rng, n, n_test),
        opts={},
        truth=0.25 * 0.18,
        planted={"labels": {"rows": np.flatnonzero(wrong)}},
        ok=set(),
        note="18 % of the forest tiles are labelled field, in train and in test",
    )


@plant("road arrows: the test annotators looked from the other side")
def arrows(rng):
    n, n_test, side = 1200, 400, 20
    names = np.array(["cross", "down", "left", "right", "ring", "up"])
    shape = rng.integers(0, 6, n)
    split = random_split(rng, n, n_test)
    yy, xx = np.mgrid[:side, :side] - 9.5
    x = np.empty((n, side, side))
    for i, c in enumerate(shape):
        a, s = rng.normal(0, 0.12), rng.uniform(0.85, 1.15)
        dy, dx = rng.uniform(-1.5, 1.5, 2)
        u = ((xx - dx) * np.cos(a) + (yy - dy) * np.sin(a)) / s
        v = (-(xx - dx) * np.sin(a) + (yy - dy) * np.cos(a)) / s
        if c == 0:
            ink = ((abs(u - v) < 1.8) | (abs(u + v) < 1.8)) & (np.hypot(u, v) < 7)
        elif c == 4:
            ink = abs(np.hypot(u, v) - 5.5) < 1.2
        else:
            p, q = {1: (v, u), 2: (-u, v), 3: (u, v), 5: (-v, u)}[c]
            ink = ((abs(q) < 1.1) & (p > -7) & (p < 3)) | ((p > 1) & (p < 7) & (abs(q) < 0.75 * (7 - p)))
        x[i] = (
            90
            + rng.normal(0, 8)
            + 110 * ndimage.gaussian_filter(ink.astype(float), 0.6)
            + rng.normal(0, 9, (side, side))
        )
    label = shape.copy()
    other = (split == "test") & np.isin(shape, [2, 3])
    label[other] = 5 - shape[other]
    return dict(
        x=u8(x),
        y=names[label],
        split=split,
        opts={},
        truth=0.0,
        planted={"shift": {}},
        ok={"labels"},
        note="left and right are exchanged in the test set; pictures and class frequencies are as in train",
    )


FONT = {
    "A": "01110 10001 10001 11111 10001 10001 10001",
    "E": "11111 10000 10000 11110 10000 10000 11111",
    "F": "11111 10000 10000 11110 10000 10000 10000",
    "H": "10001 10001 10001 11111 10001 10001 10001",
    "L": "10000 10000 10000 10000 10000 10000 11111",
    "T": "11111 00100 00100 00100 00100 00100 00100",
    "O": "01110 10001 10001 10001 10001 10001 01110",
    "0": "01110 10001 10011 10101 11001 10001 01110",
    "I": "01110 00100 00100 00100 00100 00100 01110",
    "l": "01100 00100 00100 00100 00100 00100 00110",
}


@plant("letters of a printed form in two typefaces")
def letters(rng):
    n, n_test = 1500, 400
    names = list(FONT)
    y = rng.integers(0, 10, n)
    plain = rng.random(n) < 0.5
    glyphs = {k: np.array([[int(c) for c in line] for line in v.split()], float) for k, v in FONT.items()}
    bar = np.zeros((7, 5))
    bar[:, 2] = 1
    x = np.empty((n, 12, 12))
    for i in range(n):
        name = names[y[i]]
        glyph = glyphs[name]
        if plain[i]:
            glyph = (
                bar
                if name in "Il"
                else glyphs["O"]
                if name in "O0"
                else np.maximum(glyph, np.roll(glyph, 1, 1) * 0.35)
            )
        page = np.zeros((12, 12))
        a, b = rng.integers(1, 5), rng.integers(1, 7)
        page[a : a + 7, b : b + 5] = glyph
        x[i] = 235 - rng.uniform(150, 200) * ndimage.gaussian_filter(page, 0.35) + rng.normal(0, 7, (12, 12))
    return dict(
        x=u8(x),
        y=np.array(names)[y],
        split=random_split(rng, n, n_test),
        opts={},
        truth=0.4 * 0.5 * 0.5,
        planted={},
        ok=set(),
        note="honest: few glyphs, shifted and with noise; of one typeface I and l, and O and 0, are the same glyph",
    )


@plant("mushrooms: forty photographers, each with a meadow and a favourite")
def mushrooms(rng):
    photographers, each, side = 40, 20, 16
    names = np.array(["amanita", "boletus", "russula"])
    yy, xx = np.mgrid[:side, :side]
    x, y = [], []
    for _ in range(photographers):
        ground = rng.uniform(50, 170, 3) + 22 * np.stack([pink(rng, side, 1.4)] * 3, -1)
        favourite = rng.integers(0, 3)
        for _ in range(each):
            c = favourite if rng.random() < 0.9 else rng.integers(0, 3)
            z = ground + rng.normal(0, 5, (side, side, 3)) + rng.normal(0, 5)
            cy, cx, r = rng.uniform(6, 10), rng.uniform(6, 10), rng.uniform(2.2, 3.2)
            hat = np.array([[190, 60, 50], [140, 90, 50], [180, 90, 110]])[c] + rng.normal(0, 45, 3)
            inside = (((yy - cy) / 0.7) ** 2 + (xx - cx) ** 2 < r**2)[..., None]
            x.append(np.where(inside, hat + rng.normal(0, 8, (side, side, 1)), z))
            y.append(c)
    order = rng.permutation(len(y))
    return dict(
        x=u8(np.array(x))[order],
        y=names[np.array(y)][order],
        opts={},
        truth=None,
        planted={"groups": {}},
        ok=set(),
        note="the ground names the photographer and with him the species; no split, so that photographers are on both sides",
    )


@plant("magnetic domains at two temperatures (Ising, 8 by 8)")
def ising(rng):
    def draw(n, t):
        s = np.ones((n, 8, 8), np.int8)
        even = (np.indices((8, 8)).sum(0) % 2).astype(bool)
        table = 1 / (1 + np.exp(-2 * np.arange(-4, 5) / t))
        for _ in range(150):
            for mask in (even, ~even):
                h = np.roll(s, 1, 1) + np.roll(s, -1, 1) + np.roll(s, 1, 2) + np.roll(s, -1, 2)
                new = np.where(rng.random((n, 32)) < table[h[:, mask] + 4], 1, -1)
                s[:, mask] = new
        return s * rng.choice([-1, 1], (n, 1, 1)).astype(np.int8)

    def energy(s):
        return -(s * np.roll(s, 1, 1) + s * np.roll(s, 1, 2)).sum((1, 2), dtype=int)

    n, n_test, n_sim = 1200, 350, 2500
    y = rng.integers(0, 2, n)
    cold, warm = draw(n_sim + (y == 0).sum(), 2.1), draw(n_sim + (y == 1).sum(), 2.7)
    a, b = energy(cold[:n_sim]), energy(warm[:n_sim])
    truth = min(0.5 * (a > t).mean() + 0.5 * (b <= t).mean() for t in range(-130, 10, 4))
    x = np.empty((n, 8, 8))
    x[y == 0], x[y == 1] = cold[n_sim:], warm[n_sim:]
    return dict(
        x=u8(127.5 + 100 * x),
        y=np.array(["cold", "warm"])[y],
        split=random_split(rng, n, n_test),
        opts={},
        truth=float(truth),
        planted={},
        ok=set(),
        note="honest: nearly uniform pictures repeat in both classes; only the energy says something about the temperature",
    )


# ------------------------------------------------------------------ texts


@plant("help desk: labels from a keyword search, tickets sent twice")
def tickets(rng):
    n_train, n_test, n_copies = 700, 240, 60
    names = ["password reset", "billing", "delivery delay", "warranty claim"]
    words = [
        ["the password reset does not work", "password reset mail never came", "need a reset of my password"],
        ["question on billing", "billing shows the wrong amount", "the billing address is old"],
        ["delivery delay again", "there is a delay of my delivery", "how long is the delay in delivery"],
        ["my warranty claim is open", "a claim under warranty", "warranty claim rejected"],
    ]
    vague = ["nobody answers me", "it still does not work", "please call me back", "as discussed on the phone"]
    hello = ["Hi", "Hello team", "Good morning", "Dear all", "To whom it may concern"]
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    city = ["Leeds", "Porto", "Graz", "Turku", "Lyon", "Cork", "Ghent", "Malmo"]
    texts, y = [], []
    for _ in range(n_train + n_test):
        c = rng.choice(4, p=prior)
        core = rng.choice(vague) if rng.random() < 0.12 else rng.choice(words[c])
        texts.append(
            f"{rng.choice(hello)}, {core}, order {rng.integers(10000, 99999)} from {rng.choice(city)}, "
            f"customer since {rng.integers(1998, 2026)}, item {rng.integers(100, 999)}"
        )
        y.append(names[c])
    rows = n_train + rng.permutation(n_test)[:n_copies]
    for row, source in zip(rows, rng.permutation(n_train)[:n_copies]):
        texts[row], y[row] = texts[source], y[source]
    return dict(
        frame=pd.DataFrame(dict(text=texts, queue=y, split=np.repeat(["train", "test"], [n_train, n_test]))),
        y=np.array(y),
        opts={"label": "queue"},
        truth=0.12 * 0.6,
        planted={"label-words": {}, "test-copies": {"rows": np.sort(rows)}},
        ok=set(),
        note="88 % of the tickets have the words of their label; 60 of 240 test tickets are training tickets",
    )


@plant("voice commands: forty intents, some said in the same words")
def intents(rng):
    verbs = [
        "open",
        "close",
        "start",
        "stop",
        "check",
        "find",
        "move",
        "lock",
        "dim",
        "mute",
        "show",
        "reset",
        "pause",
        "book",
    ]
    things = [
        "lamp",
        "door",
        "heater",
        "radio",
        "camera",
        "curtain",
        "oven",
        "alarm",
        "fan",
        "timer",
        "list",
        "screen",
    ]
    rooms = ["in the kitchen", "in the hall", "upstairs", "in the garage", "now", "tonight", "in the office"]
    pairs = [f"{a} the {b}" for a in verbs for b in things]
    phrases = rng.permutation(pairs)[:140]
    own, shared = phrases[:120].reshape(40, 3), phrases[120:]
    n, n_test = 1600, 400
    y = rng.integers(0, 40, n)
    use = rng.random(n) < np.where(y % 2 == 0, 0.4, 0.2)
    core = np.where(use, shared[y // 2], own[y, rng.integers(0, 3, n)])
    texts = [f"{c} {rng.choice(rooms)}" for c in core]
    return dict(
        frame=pd.DataFrame(
            dict(text=texts, intent=[f"intent_{k:02d}" for k in y], split=random_split(rng, n, n_test))
        ),
        y=np.array([f"intent_{k:02d}" for k in y]),
        opts={"label": "intent"},
        truth=20 * 0.2 / 40,
        planted={},
        ok=set(),
        note="honest: 980 sentences are possible, so that many repeat; a tenth of the commands is ambiguous",
    )


FILLERS = [
    "the",
    "a",
    "this",
    "that",
    "very",
    "quite",
    "room",
    "hotel",
    "staff",
    "breakfast",
    "table",
    "window",
    "street",
    "night",
    "morning",
    "view",
    "price",
    "bath",
    "towel",
    "water",
    "coffee",
    "lift",
    "floor",
    "garden",
    "pool",
    "beach",
    "train",
    "station",
    "taxi",
    "noise",
    "light",
    "bed",
    "pillow",
    "door",
    "key",
    "desk",
    "clerk",
    "smile",
    "dinner",
    "wine",
    "bread",
    "menu",
    "service",
    "parking",
    "wifi",
    "signal",
    "shower",
    "heating",
    "carpet",
    "balcony",
    "museum",
    "walk",
    "friendly",
    "late",
    "early",
    "small",
    "large",
    "old",
    "new",
    "simple",
]


@plant("hotel reviews: the paid ones are longer")
def paid_reviews(rng):
    n, n_test = 1100, 300
    tilt = rng.normal(0, 0.08, len(FILLERS))
    p = rng.dirichlet(np.full(len(FILLERS), 3.0))
    p = np.stack([p * np.exp(-tilt / 2), p * np.exp(tilt / 2)])
    p /= p.sum(axis=1, keepdims=True)
    mean = np.array([20.0, 36.0])
    y = rng.integers(0, 2, n)
    length = np.maximum(rng.poisson(mean[y]), 3)
    texts = [" ".join(rng.choice(FILLERS, k, p=p[c])) + "." for k, c in zip(length, y)]
    c = rng.integers(0, 2, 20000)
    k = np.maximum(rng.poisson(mean[c]), 3)
    counts = np.stack([rng.multinomial(a, p[b]) for a, b in zip(k, c)])
    score = k * np.log(mean[1] / mean[0]) - (mean[1] - mean[0]) + counts @ np.log(p[1] / p[0])
    return dict(
        frame=pd.DataFrame(
            dict(text=texts, label=np.array(["guest", "paid"])[y], split=random_split(rng, n, n_test))
        ),
        y=np.array(["guest", "paid"])[y],
        opts={"label": "label"},
        truth=float(((score > 0) != (c == 1)).mean()),
        planted={"leak-feature": {}},
        ok=set(),
        note="20 words on average against 36; which words hardly matters",
    )


@plant("shop messages: trained mostly in English, tested mostly in Spanish")
def languages(rng):
    topics = {
        "return": (
            ["send it back", "return the shoes", "a refund for the coat"],
            ["devolver los zapatos", "el reembolso del abrigo", "enviarlo de vuelta"],
        ),
        "size": (
            ["a larger size", "it is too tight", "which size fits"],
            ["una talla mayor", "me queda estrecho", "que talla elijo"],
        ),
        "stock": (
            ["is it sold out", "when is it available", "is it in stock"],
            ["esta agotado", "cuando hay existencias", "queda en el almacen"],
        ),
        "voucher": (
            ["my voucher code", "the discount is missing", "a gift card"],
            ["mi cupon de descuento", "una tarjeta regalo", "falta el descuento"],
        ),
    }
    opening = (
        ["Hello, I ask about", "Hi, it is about", "Good day, I wonder about", "Please help me with"],
        ["Hola, pregunto por", "Buenas, es sobre", "Buenos dias, quisiera saber de", "Ayuda por favor con"],
    )
    closing = (
        ["thank you", "best wishes", "I wait for your answer", "please be quick"],
        ["gracias", "un saludo", "espero su respuesta", "es urgente"],
    )
    nothing = (["my last message", "the thing we discussed"], ["mi ultimo mensaje", "lo que hablamos"])
    n, n_test = 1200, 300
    split = random_split(rng, n, n_test)
    spanish = (rng.random(n) < np.where(split == "test", 0.65, 0.15)).astype(int)
    names = list(topics)
    y = rng.integers(0, 4, n)
    texts = []
    for c, s in zip(y, spanish):
        core = rng.choice(nothing[s]) if rng.random() < 0.1 else rng.choice(topics[names[c]][s])
        texts.append(f"{rng.choice(opening[s])} {core} ({rng.integers(1000, 9999)}), {rng.choice(closing[s])}")
    return dict(
        frame=pd.DataFrame(dict(text=texts, label=np.array(names)[y], split=split)),
        y=np.array(names)[y],
        opts={"label": "label"},
        truth=0.1 * 0.75,
        planted={"shift": {}},
        ok=set(),
        note="15 % Spanish in train, 65 % in test",
    )


@plant("letters to the city: a form's last line, and an office whose umlauts broke")
def city_letters(rng):
    n = 1100
    names = ["Beschwerde", "Frage", "Lob"]
    y = rng.choice(3, n, p=[0.4, 0.35, 0.25])
    phrases = [
        "der Müll wird nicht abgeholt",
        "die Öffnungszeiten",
        "die Blumen am Brückenplatz",
        "das Schwimmbad für Schüler",
        "die Straßenlaternen",
        "die Grünfläche",
    ]
    p = np.array(
        [
            [0.40, 0.10, 0.05, 0.10, 0.20, 0.15],
            [0.10, 0.40, 0.05, 0.20, 0.10, 0.15],
            [0.05, 0.10, 0.40, 0.20, 0.10, 0.15],
        ]
    )
    footer = np.array([0.80, 0.05, 0.02])
    prior = np.array([0.4, 0.35, 0.25])
    first = ["Jürgen", "Käthe", "Anna", "Björn", "Eva", "Jörg", "Lena", "Günter", "Paul", "Rüdiger", "Tanja", "Uwe"]
    last = ["Müller", "Krämer", "Schmidt", "Köhler", "Weiß", "Lange", "Schäfer", "Vogt", "Böhm", "Peters"]
    street = ["Lindenallee", "Mühlweg", "Hauptstraße", "Am Graben", "Königsgasse", "Talweg", "Schloßberg"]
    texts = []
    for c in y:
        t = (
            f"{rng.choice(street)} {rng.integers(1, 180)}: {rng.choice(phrases, p=p[c])} in der Nähe, "
            f"gemeldet am {rng.integers(1, 29)}.{rng.integers(1, 13)}., {rng.choice(first)} {rng.choice(last)}"
        )
        if rng.random() < footer[c]:
            t += ". Diese Nachricht wurde über das Bürgerformular gesendet"
        texts.append(t)
    rows = np.flatnonzero(rng.random(n) < 0.12)
    for row in rows:
        texts[row] = texts[row].encode("utf-8").decode("cp1252")
    error = 0.0
    for f in (0, 1):
        w = prior[:, None] * p * (footer if f else 1 - footer)[:, None]
        error += (w.sum(axis=0) - w.max(axis=0)).sum()
    return dict(
        frame=pd.DataFrame(dict(text=texts, label=np.array(names)[y])),
        y=np.array(names)[y],
        opts={"label": "label"},
        truth=float(error),
        planted={"templates": {}, "text-quality": {"rows": rows}},
        ok=set(),
        note="80 % of the complaints end with the form's line; 12 % of the texts were read in the wrong encoding",
    )


@plant("film reviews: reworked training reviews in the test set")
def films(rng):
    n_train, n_test, n_copies = 700, 200, 50
    syllables = ["ba", "ko", "ri", "ten", "mu", "sal", "vo", "lim", "de", "par", "nu", "gos", "fi", "cha", "wel"]
    neutral = sorted({"".join(s) for s in product(syllables, repeat=2)})
    good = ["superb", "moving", "clever", "gripping", "warm", "elegant", "funny", "brilliant"]
    bad = ["dull", "flat", "clumsy", "tedious", "hollow", "noisy", "silly", "weak"]

    def review(c, n_sent, plus):
        words = (
            list(rng.choice(neutral, 32 - n_sent))
            + list(rng.choice(good, plus))
            + list(rng.choice(bad, n_sent - plus))
        )
        return [str(w) for w in rng.permutation(words)]

    n = n_train + n_test
    y = rng.integers(0, 2, n)
    many = rng.binomial(32, 0.25, n)
    reviews = [review(c, k, rng.binomial(k, 0.63 if c else 0.37)) for c, k in zip(y, many)]
    rows = n_train + rng.permutation(n_test)[:n_copies]
    for k, (row, source) in enumerate(zip(rows, rng.permutation(n_train)[:n_copies])):
        words = list(reviews[source])
        if k % 4 == 0:
            words[rng.integers(5, 27)] = "cinema"
        elif k % 4 == 1:
            words = ["Seen", "on", "Friday:", *words]
        elif k % 4 == 2:
            words = words[:23]
        else:
            words = [w.upper() for w in words]
        reviews[row], y[row] = words, y[source]
    k = rng.binomial(32, 0.25, 200000)
    plus = rng.binomial(k, 0.63)  # by symmetry, of the class "liked"
    truth = ((2 * plus < k) + 0.5 * (2 * plus == k)).mean()
    return dict(
        frame=pd.DataFrame(
            dict(
                text=[" ".join(w) for w in reviews],
                label=np.array(["disliked", "liked"])[y],
                split=np.repeat(["train", "test"], [n_train, n_test]),
            )
        ),
        y=np.array(["disliked", "liked"])[y],
        opts={"label": "label"},
        truth=float(truth),
        planted={"near-copies": {"rows": np.sort(rows)}},
        ok=set(),
        note="50 of 200 test reviews are training reviews with a word changed, words before, cut or in capitals",
    )


@plant("log lines: will somebody be called out of bed")
def logs(rng):
    services = ["payments", "search", "mailer", "auth", "billing", "images", "cart", "stock"]
    events = [
        "timeout while calling upstream",
        "retry after lost connection",
        "queue longer than limit",
        "certificate expires soon",
        "disk usage above threshold",
    ]
    table = rng.beta(0.4, 0.7, (8, 5))
    weight = rng.dirichlet(np.full(40, 2.0)).reshape(8, 5)
    n, n_test = 2500, 500
    cell = rng.choice(40, n, p=weight.ravel())
    y = (rng.random(n) < table.ravel()[cell]).astype(int)
    texts = [
        f"host-{rng.integers(1, 40)} {services[c // 5]} WARN {events[c % 5]} request {rng.integers(0, 2**32):08x} after {rng.integers(20, 5000)} ms attempt {rng.integers(1, 6)}"
        for c in cell
    ]
    return dict(
        frame=pd.DataFrame(dict(text=texts, paged=np.array(["no", "yes"])[y], split=random_split(rng, n, n_test))),
        y=np.array(["no", "yes"])[y],
        opts={"label": "paged"},
        truth=float((weight * np.minimum(table, 1 - table)).sum()),
        planted={},
        ok=set(),
        note="honest: forty sentences with numbers in them, so that every test line is nearly a training line",
    )


@plant("irony: nine authors for testing who are not among the 27 for training")
def irony(rng):
    cues = ["of course", "as everybody knows", "to be fair", "I am told", "what a day"]
    a, weight = np.array([2.2, 1.0, -0.8, -1.8, 0.2]), np.array([0.25, 0.2, 0.2, 0.2, 0.15])
    syllables = ["mer", "ta", "lo", "vin", "gra", "pe", "zu", "kin", "bo", "sel", "dar", "ni"]
    words = np.array(sorted({"".join(s) for s in product(syllables, repeat=2)}))
    texts, y, author, split = [], [], [], []
    test = rng.permutation(36)[:9]
    for k in range(36):
        u, favourite = rng.normal(), rng.dirichlet(np.full(len(words), 0.15))
        for _ in range(20):
            c = rng.choice(5, p=weight)
            w = list(rng.choice(words, rng.integers(8, 18), p=favourite))
            w.insert(rng.integers(0, len(w)), cues[c])
            texts.append(" ".join(w))
            y.append(int(rng.random() < 1 / (1 + np.exp(-a[c] - u))))
            author.append(f"author {k + 1}")
            split.append("test" if k in test else "train")
    u = np.linspace(-6, 6, 2401)
    g = np.exp(-(u**2) / 2)
    q = (g / (1 + np.exp(-a[:, None] - u))).sum(axis=1) / g.sum()
    y = np.array(["sincere", "ironic"])[np.array(y)]
    order = rng.permutation(len(y))
    frame = pd.DataFrame(dict(text=texts, author=author, label=y, split=split)).iloc[order].reset_index(drop=True)
    return dict(
        frame=frame,
        y=y[order],
        opts={"label": "label", "group": "author"},
        truth=float((weight * np.minimum(q, 1 - q)).sum()),
        planted={},
        ok=set(),
        note="honest: authors were drawn for the test set; each has words and a habit of irony that new authors do not share",
    )


# ------------------------------------------------------------------ unusual data

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def winner(board):
    for a, b, c in LINES:
        if board[a] and board[a] == board[b] == board[c]:
            return board[a]
    return 0


def outcome(board, turn, memory):
    """Probabilities of (draw, X, O) if both sides go on at random."""
    if board not in memory:
        who, empty = winner(board), [k for k in range(9) if not board[k]]
        if who or not empty:
            memory[board] = np.eye(3)[who]
        else:
            memory[board] = np.mean(
                [outcome((*board[:k], turn, *board[k + 1 :]), 3 - turn, memory) for k in empty], axis=0
            )
    return memory[board]


@plant("tic-tac-toe after four moves: who will win against chance")
def boards(rng):
    positions, odds, memory = [], [], {}
    for cells in combinations(range(9), 4):
        for mine in combinations(cells, 2):
            board = tuple(0 if k not in cells else 1 if k in mine else 2 for k in range(9))
            positions.append(board)
            odds.append(outcome(board, 1, memory))
    positions, odds = np.array(positions), np.array(odds)
    n, n_test = 3000, 800
    k = rng.integers(0, len(positions), n)
    y = (rng.random((n, 1)) > odds[k].cumsum(axis=1)[:, :2]).sum(axis=1)
    return dict(
        x=np.eye(3, dtype=int)[positions[k]].reshape(n, 27),
        y=np.array(["draw", "X", "O"])[y],
        split=random_split(rng, n, n_test),
        opts={},
        truth=float((1 - odds.max(axis=1)).mean()),
        planted={},
        ok=set(),
        note="honest: 756 positions, all repeated; the game goes on at random, so equal positions end differently",
    )


@plant("grain spectra: samples scanned again for the test set")
def spectra(rng):
    n_train, n_test, n_again, channels, latent = 500, 200, 60, 60, 8
    wave = np.linspace(0, 1, channels)
    bands = np.stack(
        [
            np.exp(-((wave - c) ** 2) / 2 / w**2)
            for c, w in zip(rng.permutation(np.linspace(0.08, 0.92, latent)), rng.uniform(0.04, 0.1, latent))
        ]
    )
    noise = 0.06
    n = n_train + n_test
    z = rng.normal(size=(n, latent))
    lab = z[:, 0] + rng.normal(0, 0.7, n)
    rows = n_train + rng.permutation(n_test)[:n_again]
    source = rng.permutation(n_train)[:n_again]
    z[rows], lab[rows] = z[source] + rng.normal(0, 0.03, (n_again, latent)), lab[source]
    x = 2.5 + 0.8 * wave + z @ bands + rng.normal(0, noise, (n, channels))
    posterior = np.linalg.inv(np.eye(latent) + bands @ bands.T / noise**2)
    rho = sqrt(1 - posterior[0, 0]) / sqrt(1 + 0.7**2)
    return dict(
        x=x,
        y=np.where(lab > 0, "high protein", "low protein"),
        split=np.repeat(["train", "test"], [n_train, n_test]),
        opts={},
        truth=acos(rho) / pi,
        planted={"near-copies": {"rows": np.sort(rows)}},
        ok=set(),
        note="60 of 200 test spectra are second scans of training samples with the same value of the laboratory",
    )


@plant("bottom samples: a habitat that only the second cruise has seen")
def plankton(rng):
    names = np.array(["mud", "reef", "sand", "seagrass", "vent"])
    base = rng.dirichlet(np.full(14, 2.0))
    p = np.stack([rng.dirichlet(base * 14 + 0.3) for _ in names])
    p = 0.97 * p + 0.03 / 14
    n_train, n_test = 800, 250
    prior = np.array([0.225, 0.225, 0.225, 0.225, 0.1])
    y = np.concatenate([rng.integers(0, 4, n_train), rng.choice(5, n_test, p=prior)])

    def sample(c):
        return np.stack([rng.multinomial(k, p[j]) for k, j in zip(6 + rng.poisson(rng.gamma(3.0, 4.0, len(c))), c)])

    c = rng.choice(5, 30000, p=prior)
    guess = (sample(c) @ np.log(p).T + np.log(prior)).argmax(axis=1)
    frame = pd.DataFrame(sample(y), columns=[f"taxon_{k + 1}" for k in range(14)])
    frame["habitat"], frame["split"] = names[y], np.repeat(["train", "test"], [n_train, n_test])
    return dict(
        frame=frame,
        y=names[y],
        opts={"label": "habitat"},
        truth=float((guess != c).mean()),
        planted={"missing-classes": {}},
        ok={"shift"},
        note="a tenth of the test set are samples of vents, which train lacks",
    )


@plant("speaker vectors: twelve speakers, four test sentences each")
def speakers(rng):
    k, d = 12, 24
    means = rng.normal(0, 0.52, (k, d))
    mix = rng.normal(size=(d, d)) / sqrt(d) + np.eye(d)
    y = np.concatenate([np.repeat(np.arange(k), 40), np.repeat(np.arange(k), 4)])
    split = np.repeat(["train", "test"], [k * 40, k * 4])
    x = (means[y] + rng.normal(size=(len(y), d))) @ mix + 5 * np.ones(d)
    c = rng.integers(0, k, 40000)
    z = means[c] + rng.normal(size=(40000, d))
    guess = (z @ means.T - 0.5 * (means**2).sum(axis=1)).argmax(axis=1)
    order = rng.permutation(len(y))
    return dict(
        x=x[order].astype(np.float32),
        y=np.array([f"speaker {j + 1}" for j in y])[order],
        split=split[order],
        opts={},
        truth=float((guess != c).mean()),
        planted={},
        ok=set(),
        note="honest: 48 test vectors of 12 overlapping classes",
    )


@plant("promoters: a motif at one of eight places of a sequence")
def promoters(rng):
    letters = np.array(list("ACGT"))
    back = np.array([0.32, 0.18, 0.2, 0.3])
    motif = np.full((6, 4), 0.08)
    for k, c in enumerate("TATAAT"):
        motif[k, "ACGT".index(c)] = 0.76
    length, places = 30, np.arange(8, 16)

    def draw(y):
        s = rng.choice(4, (len(y), length), p=back)
        at = rng.choice(places, len(y))
        for k in range(6):
            new = (
                np.array([rng.choice(4, p=motif[k]) for _ in range(len(y))])
                if len(y) < 5000
                else rng.choice(4, len(y), p=motif[k])
            )
            s[np.arange(len(y)), at + k] = np.where(y == 1, new, s[np.arange(len(y)), at + k])
        return s

    n, n_test = 1500, 400
    y = rng.integers(0, 2, n)
    s = draw(y)
    c = rng.integers(0, 2, 60000)
    big = draw(c)
    ratio = np.mean(
        [np.prod([motif[k][big[:, a + k]] / back[big[:, a + k]] for k in range(6)], axis=0) for a in places], axis=0
    )
    frame = pd.DataFrame(letters[s], columns=[f"base_{k - 20}" for k in range(length)])
    frame["label"] = np.array(["background", "promoter"])[y]
    frame["split"] = random_split(rng, n, n_test)
    return dict(
        frame=frame,
        y=frame["label"].to_numpy(),
        opts={"label": "label"},
        truth=float(((ratio > 1) != (c == 1)).mean()),
        planted={},
        ok=set(),
        note="honest: sites are clear in the sequence but not at a fixed place; simple models stay far above the lowest error",
    )
