"""Fresh problems: labels and lowest errors. Written from the documentation alone."""

import itertools

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from scipy.stats import binom, norm

P = {}


def plant(name, mode="none"):
    def add(function):
        P[name] = (mode, function)
        return function

    return add


def softmax(z):
    return np.exp(z - logsumexp(z, axis=1, keepdims=True))


def draw(p, rng):
    """One class per row of probabilities."""
    return np.minimum((p.cumsum(1) < rng.random(len(p))[:, None]).sum(1), p.shape[1] - 1)


# --------------------------------------------------------------------------------------------------
# honest sets


@plant("staff survey on five-point scales, leavers")
def staff_survey(rng):
    """All columns discrete, so the floor is a sum over all answers; repeats across the split are natural."""
    names = ["q1_workload", "q2_manager", "q3_pay", "q4_team"]
    weights = np.array([0.45, 0.35, 0.20])  # content, lukewarm, fed up
    peak = np.array([[4.4, 4.2, 3.8, 4.5], [3.2, 3.0, 3.0, 3.4], [1.8, 1.6, 2.0, 2.4]])
    level = np.arange(1, 6)
    item = np.exp(-((level[None, None, :] - peak[:, :, None]) ** 2) / 1.1)
    item /= item.sum(2, keepdims=True)
    item = np.concatenate([item, np.zeros((3, 4, 1))], axis=2)  # a sixth level: no answer, question 3 only
    item[:, 2] *= 0.93
    item[:, 2, 5] = 0.07
    site = np.array([[0.5, 0.3, 0.2], [0.4, 0.3, 0.3], [0.3, 0.2, 0.5]])  # sites by profile
    cells = np.array(list(itertools.product(range(6), range(6), range(6), range(6), range(3))))
    prob = sum(
        weights[h] * np.prod([item[h, j, cells[:, j]] for j in range(4)], axis=0) * site[h, cells[:, 4]]
        for h in range(3)
    )
    shift = rng.normal(0, 0.2)
    value = cells[:, :4] + 1.0
    value[cells[:, 2] == 5, 2] = 3.0  # no answer on pay counts as neutral, with a term of its own
    z = 1.0 + shift - 0.75 * (value[:, 1] - 3) - 0.5 * (value[:, 2] - 3) - 0.25 * (value[:, 0] - 3)
    z += 0.6 * (cells[:, 2] == 5) + np.array([0.0, -0.4, 0.5])[cells[:, 4]] - 0.9
    p = 1 / (1 + np.exp(-z))
    truth = float((prob * np.minimum(p, 1 - p)).sum())
    n = 2600
    pick = rng.choice(len(cells), n, p=prob / prob.sum())
    answers = value[pick]
    frame = pd.DataFrame(answers, columns=names)
    frame.loc[cells[pick, 2] == 5, "q3_pay"] = np.nan
    frame["site"] = np.array(["Leeds", "Porto", "Gdansk"])[cells[pick, 4]]
    frame["left_within_12m"] = np.where(rng.random(n) < p[pick], "yes", "no")
    frame["split"] = np.where(rng.permutation(n) < 700, "test", "train")
    return dict(
        frame=frame,
        opts=dict(label="left_within_12m"),
        truth=truth,
        planted={},
        ok={"conflicting-labels", "duplicates"},
        note="honest; five discrete columns repeat across a random split, and leaving is partly chance",
    )


@plant("emergency triage grades given by one nurse", mode="train")
def triage(rng):
    """Ordinal labels: a nurse's impression is a linear score plus normal error, cut at four thresholds."""

    def patients(n):
        age = np.clip(rng.gamma(5, 10, n), 16, 99).round()
        ill = rng.gamma(1.6, 0.7, n)
        hr = (72 + 14 * ill + rng.normal(0, 11, n)).round()
        spo2 = np.clip(98.5 - 1.7 * ill - 0.02 * (age - 40) + rng.normal(0, 1.3, n), 70, 100).round()
        sbp = (128 + 0.3 * (age - 45) - 5 * ill + rng.normal(0, 15, n)).round()
        temp = (36.8 + 0.35 * ill + rng.normal(0, 0.5, n)).round(1)
        temp[rng.random(n) < 0.28] = np.nan  # not taken
        pain = np.clip(rng.poisson(2 + 1.4 * ill), 0, 10)
        mode = rng.choice(3, n, p=[0.6, 0.15, 0.25])
        mode = np.where(rng.random(n) < np.clip(0.15 * (ill - 1), 0, 0.8), 2, mode)
        t = np.where(np.isnan(temp), 0.0, np.nan_to_num(temp, nan=37.0) - 37.0)
        score = 0.035 * (hr - 90) + 0.22 * (96 - spo2) - 0.012 * (sbp - 125) + 0.45 * t + 0.12 * pain
        score += 0.01 * (age - 45) + np.array([0.0, 0.15, 0.7])[mode] - 0.25 * np.isnan(temp)
        return dict(age=age, arrival=mode, hr=hr, sbp=sbp, spo2=spo2, temp_c=temp, pain_nrs=pain), score

    sigma, cuts = 0.55, np.array([-0.6, 0.35, 1.5, 2.9])

    def grades(score):
        return np.diff(norm.cdf((cuts[None] - score[:, None]) / sigma), prepend=0.0, append=1.0, axis=1)

    _, many = patients(80_000)
    truth = float(1 - grades(many).max(1).mean())
    columns, score = patients(2200)
    y = 5 - draw(grades(score), rng)
    frame = pd.DataFrame(columns)
    frame["arrival"] = np.array(["walk-in", "wheelchair", "ambulance"])[frame["arrival"]]
    frame["esi"] = [f"ESI {k}" for k in y]
    return dict(
        frame=frame,
        opts=dict(label="esi"),
        truth=truth,
        planted={},
        ok=set(),
        note="honest; neighbouring grades are confused because the nurse's impression has an error",
    )


@plant("chatbot intents, one intent listed under two names")
def intents(rng):
    """Sentence embeddings: 24 intents in six topics, short utterances are noisier; two intents are one."""
    k, d = 24, 32
    topic = rng.normal(0, 1.0, (6, d))
    mean = topic[np.arange(k) // 4] + rng.normal(0, 0.75, (k, d))
    mean[7] = mean[6]  # cancel_order and order_cancellation
    mix = rng.normal(size=(d, d)) / np.sqrt(d)
    cov = 0.5 * np.eye(d) + 0.5 * mix @ mix.T
    root = np.linalg.cholesky(cov)
    scale, share = np.array([0.75, 1.35]), np.array([0.65, 0.35])  # long and short utterances
    prior = rng.dirichlet(np.full(k, 12.0))

    def sample(n):
        y = rng.choice(k, n, p=prior)
        s = scale[rng.choice(2, n, p=share)]
        return mean[y] + s[:, None] * (rng.normal(size=(n, d)) @ root.T), y

    def posterior(x):
        z, m = np.linalg.solve(root, x.T).T, np.linalg.solve(root, mean.T).T
        dist = (z**2).sum(1)[:, None] - 2 * z @ m.T + (m**2).sum(1)
        parts = [np.log(w) - d * np.log(s) - dist / (2 * s * s) for w, s in zip(share, scale)]
        return softmax(np.logaddexp(*parts) + np.log(prior))

    truth = float(1 - posterior(sample(24_000)[0]).max(1).mean())
    x, y = sample(2400)
    names = [f"intent_{i:02d}" for i in range(k)]
    names[6], names[7] = "cancel_order", "order_cancellation"
    frame = pd.DataFrame(x.astype(np.float32), columns=[f"emb_{i}" for i in range(d)])
    frame["intent"] = np.array(names)[y]
    return dict(
        frame=frame,
        opts=dict(label="intent"),
        truth=truth,
        planted={},
        ok=set(),
        note="honest rows; two of 24 classes have one density, so their labels are a coin",
    )


@plant("camera traps: species seen by night, pilot test of 80 pictures")
def camera_traps(rng):
    """Label noise that depends on x: rangers name the wrong species of far animals in the dark."""
    prior = np.array([0.45, 0.33, 0.22])  # roe deer, boar, fox
    log_len = np.array([np.log(1.15), np.log(1.35), np.log(0.68)])
    ratio = np.array([0.62, 0.50, 0.40])
    speed = np.array([1.3, 0.9, 1.8])
    swap = np.array([[0.0, 0.6, 0.4], [0.85, 0.0, 0.15], [0.8, 0.2, 0.0]])

    def sample(n):
        t = rng.choice(3, n, p=prior)
        hour = (rng.beta(2, 2, n) * 24 + 12) % 24
        lux = np.exp(np.where((hour > 6) & (hour < 19), 5.5, 0.6) + rng.normal(0, 1.0, n))
        dist = rng.gamma(4, 3.0, n) + 1
        length = np.exp(log_len[t] + rng.normal(0, 0.14, n))
        shape = ratio[t] + rng.normal(0, 0.045, n)
        pace = np.exp(np.log(speed[t]) + rng.normal(0, 0.45, n))
        return np.c_[hour, lux, dist, length, shape, pace], t

    def posterior(x):
        hour, lux, dist, length, shape, pace = x.T
        log = np.log(prior) + norm.logpdf(np.log(length)[:, None], log_len, 0.14)
        log += norm.logpdf(shape[:, None], ratio, 0.045) + norm.logpdf(np.log(pace)[:, None], np.log(speed), 0.45)
        true = softmax(log)
        eta = 0.55 / (1 + np.exp(0.9 * np.log(lux) - 0.15 * (dist - 12)))  # at most 0.55
        return (1 - eta)[:, None] * true + eta[:, None] * (true @ swap), eta

    p, _ = posterior(sample(60_000)[0])
    truth = float(1 - p.max(1).mean())
    x, t = sample(1280)
    noisy = rng.random(len(t)) < posterior(x)[1]
    y = np.where(noisy, draw(swap[t], rng), t)
    frame = pd.DataFrame(x, columns=["hour", "lux", "distance_m", "body_length_m", "height_ratio", "speed_ms"])
    frame["moon"] = rng.choice(["new", "quarter", "full"], len(frame))
    frame["species"] = np.array(["roe deer", "wild boar", "red fox"])[y]
    frame["split"] = np.where(rng.permutation(len(frame)) < 80, "test", "train")
    return dict(
        frame=frame,
        opts=dict(label="species"),
        truth=truth,
        planted={"small-test": {}},
        ok={"labels"},
        note="honest; labels are wrong by chance in the dark in train and test; 80 test rows show little",
    )


@plant("abusive comments: single raters in train, majority of five in test", mode="train")
def comments(rng):
    """The test labels are adjudicated: less noise in test than in train, from the same opinions."""
    sections = np.array(["politics", "sport", "local", "culture"])

    def sample(n):
        words = np.exp(rng.normal(3.3, 0.8, n)).round() + 1
        anger = rng.normal(size=n)
        swear = rng.poisson(np.exp(-1.3 + 0.8 * anger) * words / 30)
        second = rng.poisson(np.exp(-0.3 + 0.5 * anger) * words / 25)
        caps = np.clip(rng.beta(1.2, 14, n) * np.exp(0.45 * anger), 0, 1).round(4)
        bang = rng.poisson(np.exp(-0.6 + 0.6 * anger))
        age = np.exp(rng.normal(5, 1.3, n)).round(1)
        section = rng.choice(4, n, p=[0.4, 0.25, 0.2, 0.15])
        z = (
            -0.75
            + 1.0 * np.minimum(swear, 4)
            + 0.3 * np.minimum(second, 5)
            + 5 * (caps - 0.08)
            + 0.2 * np.minimum(bang, 4)
        )
        z += np.array([0.2, -0.2, 0.0, -0.4])[section] - 0.15 * (np.log(age) - 5) - 0.9
        return (words, swear, second, caps, bang, age, section), 1 / (1 + np.exp(-0.9 * z))

    def majority(p):
        return binom.sf(2, 5, p)

    m = majority(sample(100_000)[1])
    truth = float(np.minimum(m, 1 - m).mean())
    n, t = 3000, 800
    (words, swear, second, caps, bang, age, section), p = sample(n)
    test = np.arange(n) >= n - t
    y = rng.random(n) < np.where(test, majority(p), p)
    frame = pd.DataFrame(
        dict(
            n_words=words.astype(int),
            n_profanity=swear,
            n_you=second,
            caps_share=caps,
            n_exclamation=bang,
            account_age_days=age,
            section=sections[section],
        )
    )
    frame["abusive"] = y.astype(int)
    frame["split"] = np.where(test, "test", "train")
    return dict(
        frame=frame,
        opts=dict(label="abusive"),
        truth=truth,
        planted={},
        ok={"shift"},
        note="honest; the same comments' opinions, once in train, the majority of five in test",
    )


@plant("yeast isolates of ninety strains")
def yeast(rng):
    """Tight modes that fresh data have as well: near neighbours everywhere, in a random split."""
    k, d, tau = 90, 8, 0.16
    centre = rng.normal(0, 1.0, (k, d)) @ (np.eye(d) + 0.5 * np.eye(d, k=1))
    freq = 1 / (np.arange(k) + 6.0)
    freq /= freq.sum()
    sensitive = np.where(rng.random(k) < 0.6, rng.beta(12, 0.6, k), rng.beta(0.9, 3.0, k))
    resist = (1 - sensitive) * rng.beta(3, 1.0, k)
    table = np.c_[sensitive, 1 - sensitive - resist, resist]

    def sample(n):
        s = rng.choice(k, n, p=freq)
        return centre[s] + tau * rng.normal(size=(n, d)), s

    def posterior(x):
        dist = (x**2).sum(1)[:, None] - 2 * x @ centre.T + (centre**2).sum(1)
        return softmax(np.log(freq) - dist / (2 * tau**2)) @ table

    truth = float(1 - posterior(sample(15_000)[0]).max(1).mean())
    n = 2000
    x, s = sample(n)
    frame = pd.DataFrame(
        x, columns=["mz_2480", "mz_3115", "mz_4032", "mz_4750", "mz_5310", "mz_6188", "mz_7044", "mz_8260"]
    )
    frame["specimen"] = rng.choice(["blood", "urine", "swab"], n, p=[0.5, 0.3, 0.2])
    frame["fluconazole"] = np.array(["S", "I", "R"])[draw(table[s], rng)]
    frame["split"] = np.where(rng.permutation(n) < 500, "test", "train")
    return dict(
        frame=frame,
        opts=dict(label="fluconazole"),
        truth=truth,
        planted={},
        ok=set(),
        note="honest; strains are modes of the population, the split is random, some strains have all three results",
    )


@plant("mastermind: black pegs of the third guess")
def mastermind(rng):
    """Floor by enumeration: after two answers all consistent codes are equally likely."""
    codes = np.array(list(itertools.product(range(6), repeat=4)))
    black = (codes[:, None, :] == codes[None, :, :]).sum(2).astype(np.int8)
    count = (codes[:, :, None] == np.arange(6)).sum(1)
    total = sum(np.minimum(count[:, None, c], count[None, :, c]) for c in range(6)).astype(np.int8)
    answer = black * 5 + (total - black)

    def games(n):
        secret, g1, g2 = rng.integers(0, 1296, (3, n))
        g3, floor = np.zeros(n, int), np.zeros(n)
        for i in range(n):
            fits = np.flatnonzero(
                (answer[g1[i]] == answer[g1[i], secret[i]]) & (answer[g2[i]] == answer[g2[i], secret[i]])
            )
            g3[i] = fits[rng.integers(len(fits))] if rng.random() < 0.5 else rng.integers(1296)
            floor[i] = 1 - np.bincount(np.minimum(black[g3[i], fits], 3)).max() / len(fits)
        return secret, g1, g2, g3, floor

    secret, g1, g2, g3, floor = games(8_000)
    truth = float(floor.mean())
    n = 3500
    colour = np.array(list("RGBYOW"))
    frame = pd.DataFrame(
        {f"g{j}_{i + 1}": colour[codes[g[:n], i]] for j, g in ((1, g1), (2, g2), (3, g3)) for i in range(4)}
    )
    for j, g in ((1, g1), (2, g2)):
        b = black[g[:n], secret[:n]].astype(int)
        frame[f"g{j}_black"], frame[f"g{j}_white"] = b, total[g[:n], secret[:n]].astype(int) - b
    b3 = black[g3[:n], secret[:n]].astype(int)
    frame["g3_black"] = np.array(["none", "one", "two", "three or four"])[np.minimum(b3, 3)]
    return dict(
        frame=frame,
        opts=dict(label="g3_black"),
        truth=truth,
        planted={},
        ok=set(),
        note="honest; the secret is not in the file, so the label is a draw among the codes that fit",
    )


# --------------------------------------------------------------------------------------------------
# planted


@plant("news desks by keyword counts, labels pasted one row too low", mode="train")
def news(rng):
    """Poisson counts given desk and length; in 160 training rows each label is that of the row above."""
    desks = ["politics", "business", "sport", "science", "culture", "crime", "travel", "weather"]
    k, w = 8, 48
    base = rng.gamma(1.5, 0.6, w) + 0.12
    rate = base * np.exp(rng.normal(0, 0.55, (k, w)))
    for c in range(k):
        rate[c, 6 * c : 6 * c + 6] *= rng.uniform(1.3, 2.6, 6)
    rate[5] = np.sqrt(rate[5] * rate[0])  # crime reads like politics
    prior = np.array([0.2, 0.17, 0.17, 0.1, 0.12, 0.1, 0.08, 0.06])

    def sample(n):
        y = rng.choice(k, n, p=prior)
        length = np.exp(rng.normal(5.9, 0.55, n)).round()
        return rng.poisson(rate[y] * (length / 500)[:, None]), length, y

    def posterior(x, length):
        scale = (length / 500)[:, None]
        return softmax(np.log(prior) + x @ np.log(rate).T - scale * rate.sum(1))

    truth = float(1 - posterior(*sample(24_000)[:2]).max(1).mean())
    n, train = 2400, 1800
    x, length, y = sample(n)
    start = int(rng.integers(200, 1400))
    wrong = y.copy()
    wrong[start : start + 160] = y[start - 1 : start + 159]
    rows = np.flatnonzero(wrong != y)
    frame = pd.DataFrame(x, columns=[f"kw_{i:02d}" for i in range(w)])
    frame.insert(0, "n_words", length.astype(int))
    frame["desk"] = np.array(desks)[wrong]
    frame["split"] = np.repeat(["train", "test"], [train, n - train])
    return dict(
        frame=frame,
        opts=dict(label="desk"),
        truth=truth,
        planted={"labels": {"rows": rows}},
        ok=set(),
        note="a block of training labels slipped by one row in a spreadsheet; the test labels are right",
    )


@plant("skin lesions: the test hospital grades by an older guideline")
def lesions(rng):
    """Same patients' population, same class frequencies, another rule in test: only errors show it."""
    sigma = 0.35
    cuts = np.array([-0.4, 0.75])
    a, b = np.array([0.8, 0.2, 0.15, 0.55]), np.array([0.1, 0.75, 0.65, 0.05])
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)

    def sample(n):
        return rng.normal(size=(n, 4))

    def posterior(z, rule):
        return np.diff(norm.cdf((cuts - (z @ rule)[:, None]) / sigma), prepend=0.0, append=1.0, axis=1)

    truth = float(1 - posterior(sample(80_000), b).max(1).mean())
    n, t = 2100, 500
    z = sample(n)
    test = np.arange(n) < t  # the test file comes first
    y = np.where(test, draw(posterior(z, b), rng), draw(posterior(z, a), rng))
    frame = pd.DataFrame(
        dict(
            diameter_mm=np.exp(1.6 + 0.45 * z[:, 0]).round(3),
            colour_variance=np.exp(0.5 * z[:, 1]).round(4),
            border_irregularity=(1 + np.exp(-1 + 0.6 * z[:, 2])).round(4),
            growth_mm_month=np.exp(-1.8 + 0.7 * z[:, 3]).round(5),
            age=rng.integers(18, 90, n),
            body_site=rng.choice(["trunk", "arm", "leg", "head"], n, p=[0.4, 0.25, 0.25, 0.1]),
        )
    )
    frame["grade"] = np.array(["benign", "atypical", "suspicious"])[y]
    frame["split"] = np.where(test, "test", "train")
    return dict(
        frame=frame,
        opts=dict(label="grade"),
        truth=truth,
        planted={"shift": {}},
        ok=set(),
        note="the older guideline grades by colour and border, the training hospital by size and growth",
    )


@plant("case vignettes, each judged by several doctors")
def vignettes(rng):
    """Repeated inputs with honest disagreement; the column of doctors is not in the export."""

    def sample(n):
        age = rng.integers(18, 91, n)
        days = rng.integers(1, 15, n)
        crp = np.exp(rng.normal(3.2, 1.0, n)).round(1).clip(0.1)
        temp = rng.normal(38.2, 0.8, n).round(1)
        smoker = rng.random(n) < 0.3
        crackles = rng.random(n) < 0.45
        u = np.log(crp) - 3.2
        z = np.c_[
            0.2 - 0.9 * u - 0.5 * (temp - 38.2) - 1.2 * crackles,
            0.5 * (days / 7 - 1) + 0.2 * smoker,
            -0.4 + 1.1 * u + 0.6 * (temp - 38.2) + 1.5 * crackles + 0.015 * (age - 50),
        ]
        return (age, days, crp, temp, smoker, crackles), softmax(1.4 * z)

    truth = float(1 - sample(60_000)[1].max(1).mean())
    k = 260
    (age, days, crp, temp, smoker, crackles), p = sample(k)
    times = rng.integers(4, 10, k)
    case = rng.permutation(np.repeat(np.arange(k), times))
    y = draw(p[case], rng)
    frame = pd.DataFrame(
        dict(
            age=age[case],
            days_ill=days[case],
            crp_mg_l=crp[case],
            temp_c=temp[case],
            smoker=np.where(smoker[case], "yes", "no"),
            crackles=np.where(crackles[case], "yes", "no"),
            plan=np.array(["no antibiotic", "wait and see", "antibiotic"])[y],
        )
    )
    count = np.zeros((k, 3), int)
    np.add.at(count, (case, y), 1)
    top = np.sort(count, axis=1)
    clear = top[:, 2] > top[:, 1]  # one most frequent answer
    rows = np.flatnonzero(clear[case] & (y != count.argmax(1)[case]))
    return dict(
        frame=frame,
        opts=dict(label="plan"),
        truth=truth,
        planted={"conflicting-labels": {"rows": rows}, "duplicates": {}},
        ok=set(),
        note="the same vignette has several rows, and doctors disagree; planted rows are the minority answers",
    )


@plant("fungi of a forest, a new species in the test season")
def fungi(rng):
    """Zipf classes; one species of the test season never occurs in train."""
    species = [
        "Amanita rubescens", "Boletus edulis", "Russula ochroleuca", "Laccaria laccata", "Hypholoma fasciculare",
        "Mycena galericulata", "Cortinarius semisanguineus", "Lactarius rufus", "Clitocybe nebularis", "Galerina marginata",
        "Clathrus archeri",
    ]  # fmt: skip
    k = len(species)
    size = np.array([700, 420, 300, 220, 160, 120, 80, 50, 30, 12, 0])
    test_size = np.array([212, 128, 92, 66, 48, 36, 24, 16, 10, 5, 65])
    cap, stem = rng.normal(1.9, 0.6, k), rng.normal(1.8, 0.45, k)
    spore, ph = rng.normal(8.5, 2.2, k), rng.normal(5.6, 0.7, k)
    hue, gills = rng.dirichlet(np.full(5, 0.6), k), rng.dirichlet(np.full(3, 0.7), k)
    hue, gills = 0.95 * hue + 0.05 / 5, 0.95 * gills + 0.05 / 3
    measured = 0.7

    def sample(y):
        n = len(y)
        x = np.c_[
            np.exp(cap[y] + rng.normal(0, 0.35, n)),
            np.exp(stem[y] + rng.normal(0, 0.3, n)),
            np.where(rng.random(n) < measured, spore[y] + rng.normal(0, 0.9, n), np.nan),
            ph[y] + rng.normal(0, 0.5, n),
        ]
        return x, draw(hue[y], rng), draw(gills[y], rng)

    def posterior(x, h, g, prior):
        log = np.log(prior) + norm.logpdf(np.log(x[:, :1]), cap, 0.35) + norm.logpdf(np.log(x[:, 1:2]), stem, 0.3)
        log += np.nan_to_num(norm.logpdf(x[:, 2:3], spore, 0.9), nan=0.0) + norm.logpdf(x[:, 3:4], ph, 0.5)
        return softmax(log + np.log(hue.T[h]) + np.log(gills.T[g]))

    prior = test_size / test_size.sum()
    truth = float(1 - posterior(*sample(rng.choice(k, 24_000, p=prior)), prior).max(1).mean())
    y = np.r_[rng.permutation(np.repeat(np.arange(k), size)), rng.permutation(np.repeat(np.arange(k), test_size))]
    x, h, g = sample(y)
    frame = pd.DataFrame(x, columns=["cap_cm", "stem_cm", "spore_um", "soil_ph"])
    frame["cap_colour"] = np.array(["brown", "red", "ochre", "white", "grey"])[h]
    frame["gills"] = np.array(["free", "attached", "none"])[g]
    frame["species"] = np.array(species)[y]
    frame["split"] = np.repeat(["train", "test"], [size.sum(), test_size.sum()])
    return dict(
        frame=frame,
        opts=dict(label="species"),
        truth=truth,
        planted={"missing-classes": {}, "imbalance": {}},
        ok={"shift"},
        note="9 % of the test season is a species that train lacks; 912 rows of the commonest species, 17 of the rarest of train",
    )


@plant("anaemia clinic, test set of complete cases only")
def anaemia(rng):
    """The test set was filtered to rows with ferritin; which rows have it depends on observed columns."""

    def sample(n):
        age = np.clip(rng.normal(52, 19, n), 18, 96).round()
        female = rng.random(n) < 0.58
        iron = rng.normal(size=n)
        hb = (13.6 - 1.1 * female + 0.9 * iron - 0.012 * (age - 50) + rng.normal(0, 0.9, n)).round(1)
        mcv = (88 + 4.2 * iron + rng.normal(0, 4.0, n)).round(1)
        crp = np.exp(rng.normal(1.2, 1.0, n)).round(1).clip(0.1)
        ferritin = np.exp(3.7 + 0.75 * iron + 0.2 * np.log(crp) + rng.normal(0, 0.5, n)).round(1).clip(0.5)
        z = -0.6 - 1.7 * (np.log(ferritin) - 3.6) - 0.75 * (hb - 13) - 0.08 * (mcv - 88) + 0.3 * (np.log(crp) - 1.2)
        ordered = rng.random(n) < 1 / (1 + np.exp(-(0.15 - 0.35 * (hb - 13) + 0.008 * (age - 50))))
        return (
            pd.DataFrame(
                dict(
                    age=age, sex=np.where(female, "F", "M"), hb_g_dl=hb, mcv_fl=mcv, crp_mg_l=crp, ferritin=ferritin
                )
            ),
            1 / (1 + np.exp(-z)),
            ordered,
        )

    _, p, ordered = sample(100_000)
    p = p[ordered]
    truth = float(np.minimum(p, 1 - p).mean())
    frame, p, ordered = sample(2600)
    test = np.zeros(2600, bool)
    test[rng.choice(np.flatnonzero(ordered), 480, replace=False)] = True
    frame["iron_deficiency"] = np.where(rng.random(2600) < p, "yes", "no")
    frame.loc[~ordered, "ferritin"] = np.nan
    frame["split"] = np.where(test, "test", "train")
    return dict(
        frame=frame,
        opts=dict(label="iron_deficiency"),
        truth=truth,
        planted={"shift": {"columns": ["ferritin"]}},
        ok=set(),
        note="more than half of train lack ferritin, no row of the test set does",
    )


@plant("solder joints: rare defects oversampled before the split")
def solder(rng):
    """Every class was filled up to 320 rows with copies, then the file was split at random."""
    kinds = ["ok", "bridge", "void", "cold joint", "lifted lead"]
    own = np.array([620, 210, 120, 75, 45])
    d = 9
    mean = rng.normal(0, 1.0, (5, d))
    mean[0] = 0
    mix = np.eye(d) + 0.35 * rng.normal(size=(d, d))
    y = np.repeat(np.arange(5), own)
    x = 0.75 * mean[y] + rng.standard_t(6, (len(y), d)) @ mix.T * 0.8
    more = np.concatenate([rng.choice(np.flatnonzero(y == c), max(0, 320 - own[c])) for c in range(5)])
    pick = rng.permutation(np.r_[np.arange(len(y)), more])
    n = len(pick)
    test = np.zeros(n, bool)
    test[rng.choice(n, 400, replace=False)] = True
    rows = np.flatnonzero(test & np.isin(pick, pick[~test]))
    frame = pd.DataFrame(
        x[pick],
        columns=["area", "height_um", "volume", "offset_x", "offset_y", "gloss", "wetting", "grey_mean", "grey_sd"],
    )
    frame["line"] = np.array(["SMT-1", "SMT-2", "SMT-3"])[rng.integers(0, 3, len(y))][pick]
    frame["defect"] = np.array(kinds)[y[pick]]
    frame["split"] = np.where(test, "test", "train")
    return dict(
        frame=frame,
        opts=dict(label="defect"),
        truth=None,
        planted={"test-copies": {"rows": rows}},
        ok={"duplicates"},
        note="test rows whose original or another copy is in train; which population the test stands for is open",
    )


@plant("hex on 5 x 5 boards, some results from the opponent's sheet", mode="train")
def hex_boards(rng):
    """Filled boards have exactly one winner; one training result in sixteen was noted for the wrong side."""
    n, train, s = 3200, 2600, 5
    boards = np.zeros((n + 200, s * s), np.int64)
    boards[:, :13] = 1
    boards = np.unique(rng.permuted(boards, axis=1), axis=0)  # no board twice
    boards = rng.permutation(boards)[:n]
    near = [[] for _ in range(s * s)]
    for r in range(s):
        for c in range(s):
            for a, b in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1)):
                if 0 <= r + a < s and 0 <= c + b < s:
                    near[r * s + c].append((r + a) * s + c + b)
    wins = np.zeros(n, int)
    for i, board in enumerate(boards):  # does red connect top and bottom?
        todo = [c for c in range(s) if board[c]]
        seen = set(todo)
        while todo:
            for q in near[todo.pop()]:
                if board[q] and q not in seen:
                    seen.add(q)
                    todo.append(q)
        wins[i] = any(q >= s * (s - 1) for q in seen)
    rows = np.sort(rng.choice(train, train // 16, replace=False))
    y = wins.copy()
    y[rows] = 1 - y[rows]
    frame = pd.DataFrame(
        np.where(boards == 1, 1, -1), columns=[f"{'abcde'[c]}{r + 1}" for r in range(s) for c in range(s)]
    )
    frame["winner"] = np.where(y == 1, "red", "blue")
    frame["split"] = np.repeat(["train", "test"], [train, n - train])
    return dict(
        frame=frame,
        opts=dict(label="winner"),
        truth=0.0,
        planted={"labels": {"rows": rows}},
        ok=set(),
        note="the winner follows from the board; test results were written by the program",
    )


@plant("loan defaults, test file blown up by drawing with replacement")
def loans(rng):
    """The contract asked for 700 test rows; there were 330."""
    prior = 0.32
    d = 6
    mix = np.eye(d) + 0.15 * rng.normal(size=(d, d))
    cov = mix @ mix.T
    gap = rng.normal(size=d)
    gap *= 1.7 / np.sqrt(gap @ np.linalg.solve(cov, gap))
    delta, cut = 1.7, np.log((1 - prior) / prior)
    truth = float(prior * norm.cdf(cut / delta - delta / 2) + (1 - prior) * norm.sf(cut / delta + delta / 2))
    n, base, t = 1500, 330, 700
    y = (rng.random(n) < prior).astype(int)
    z = rng.normal(size=(n, d)) @ mix.T + y[:, None] * gap
    pick = np.r_[np.arange(base, n), rng.choice(base, t)]
    _, first = np.unique(pick, return_index=True)
    rows = np.setdiff1d(np.arange(len(pick)), first)
    z, y = z[pick], y[pick]
    frame = pd.DataFrame(
        dict(
            amount=np.exp(9 + 0.6 * z[:, 0]),
            income=np.exp(10.4 + 0.4 * z[:, 1]),
            debt_ratio=0.35 + 0.08 * z[:, 2],
            score_bureau=610 + 45 * z[:, 3],
            months_employed=np.exp(4 + 0.5 * z[:, 4]),
            utilisation=0.4 + 0.12 * z[:, 5],
        )
    )
    frame["defaulted"] = y
    frame["split"] = np.repeat(["train", "test"], [n - base, t])
    return dict(
        frame=frame,
        opts=dict(label="defaulted"),
        truth=truth,
        planted={"duplicates": {"rows": rows}},
        ok=set(),
        note="700 test rows are draws with replacement from 330; planted rows are the second and later occurrences",
    )
