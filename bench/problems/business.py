"""Fresh problems: business and medical tables. Written from the documentation alone."""

import numpy as np
import pandas as pd
from scipy.special import expit, softmax
from scipy.stats import multivariate_normal, norm, poisson

P = {}
BIG = 100_000  # draws of a simulated truth


def plant(name, mode="none"):
    def add(function):
        P[name] = (mode, function)
        return function

    return add


def bayes(p):
    """Lowest error where p are the posterior probabilities: of the positive class, or one column per class."""
    p = np.asarray(p)
    return float(np.mean(np.minimum(p, 1 - p) if p.ndim == 1 else 1 - p.max(axis=1)))


def flip(rng, p, names):
    """Labels drawn from posteriors."""
    p = np.asarray(p)
    if p.ndim == 1:
        return np.asarray(names)[(rng.random(len(p)) < p).astype(int)]
    k = (rng.random(len(p))[:, None] > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    return np.asarray(names)[k]


def official(rng, n, n_test):
    split = np.repeat(["train", "test"], [n - n_test, n_test])
    return rng.permutation(split)


# ---------------------------------------------------------------- planted: a column that is filled for one class only
def draw_triage(rng, n):
    severity = rng.gamma(2.0, 0.6, n)
    age = np.clip(rng.normal(54, 19, n), 17, 98).round()
    mode = rng.choice(["walk-in", "ambulance", "gp referral"], n, p=[0.55, 0.33, 0.12])
    hr = (78 + 9 * severity + rng.normal(0, 11, n)).round()
    sbp = (134 - 7 * severity + 0.15 * (age - 50) + rng.normal(0, 16, n)).round()
    spo2 = np.clip(98 - 1.6 * severity + rng.normal(0, 1.4, n), 70, 100).round()
    temp = (36.8 + 0.3 * severity + rng.normal(0, 0.5, n)).round(1)
    lactate = np.exp(0.1 + 0.35 * severity + rng.normal(0, 0.3, n)).round(1)
    lactate[rng.random(n) > np.where(mode == "ambulance", 0.85, 0.3)] = np.nan
    complaint = rng.choice(
        ["chest pain", "dyspnoea", "abdominal", "trauma", "neuro", "other"], n, p=[0.2, 0.15, 0.2, 0.15, 0.1, 0.2]
    )
    lab = np.where(np.isnan(lactate), 0.0, 0.6 * (np.nan_to_num(lactate) - 1.8))
    s = 0.05 * (hr - 88) - 0.02 * (sbp - 126) - 0.35 * (spo2 - 96) + 0.4 * (temp - 37.1) + lab + 0.015 * (age - 54)
    logits = np.stack(
        [
            0.9 - 0.6 * s,
            0.1 + 0.3 * (mode == "ambulance") + 0.25 * s,
            -1.9 + 0.8 * s + 0.4 * (complaint == "neuro"),
        ],
        axis=1,
    )
    frame = pd.DataFrame(
        dict(
            age=age.astype(int),
            arrival_mode=mode,
            chief_complaint=complaint,
            heart_rate=hr.astype(int),
            sbp=sbp.astype(int),
            spo2=spo2.astype(int),
            temp_c=temp,
            lactate_mmol=lactate,
        )
    )
    return frame, softmax(logits, axis=1)


@plant("emergency department: minutes to the ICU bed request")
def triage(rng):
    frame, p = draw_triage(rng, 2400)
    y = flip(rng, p, ["discharged", "ward", "icu"])
    minutes = np.exp(rng.normal(4.0, 0.7, len(y))).round()
    frame.insert(5, "bed_request_min", np.where(y == "icu", minutes, np.nan))
    frame["disposition"] = y
    _, q = draw_triage(rng, BIG)
    return dict(
        frame=frame,
        opts=dict(label="disposition"),
        truth=float(np.minimum(q[:, 0], q[:, 1]).mean()),  # intensive care is known, the other two are not
        planted={"leak-feature": {"columns": ["bed_request_min"]}},
        ok=set(),
        note="bed_request_min is filled after the decision, and only for patients who go to intensive care",
    )


# ---------------------------------------------------------------- planted: customers of the first snapshot in the second
def draw_churn(rng, n):
    tenure = rng.gamma(1.3, 22, n).round(1)
    contract = rng.choice(["month-to-month", "one year", "two years"], n, p=[0.5, 0.28, 0.22])
    charge = (19 + 60 * rng.beta(1.6, 1.8, n)).round(2)
    minutes = rng.gamma(3.0, 95, n).round(1)
    data = np.exp(rng.normal(1.6, 0.8, n)).round(3)
    calls = rng.poisson(0.5 + 0.012 * charge, n)
    pay = rng.choice(["direct debit", "card", "invoice"], n, p=[0.52, 0.3, 0.18])
    z = (
        -0.6
        - 0.022 * tenure
        + 1.5 * (contract == "month-to-month")
        - 0.9 * (contract == "two years")
        + 0.02 * (charge - 47)
        + 0.45 * calls
        - 0.002 * (minutes - 285)
    )
    frame = pd.DataFrame(
        dict(
            tenure_months=tenure,
            contract=contract,
            monthly_charge=charge,
            voice_minutes=minutes,
            data_gb=data,
            service_calls=calls,
            payment=pay,
        )
    )
    return frame, expit(z + 0.3 * (pay == "invoice"))


@plant("telecom churn: accounts of the training snapshot exported again, with the outcome of the next quarter")
def churn(rng):
    n, m, copies = 2200, 800, 220
    frame, p = draw_churn(rng, n + m)
    source, target = rng.choice(n, copies, replace=False), n + rng.choice(m, copies, replace=False)
    for column in frame:
        values = frame[column].to_numpy().copy()
        values[target] = values[source]
        frame[column] = values
    p = p.copy()
    p[target] = p[source]
    frame["churned"] = flip(
        rng, p, ["no", "yes"]
    )  # every row has an outcome of its own, also the repeated accounts
    frame["split"] = np.repeat(["train", "test"], [n, m])
    copied = np.isin(np.arange(n + m), target)
    order = rng.permutation(n + m)
    frame = frame.iloc[order].reset_index(drop=True)
    return dict(
        frame=frame,
        opts=dict(label="churned"),
        truth=bayes(draw_churn(rng, BIG)[1]),
        planted={"test-copies": {"rows": np.flatnonzero(copied[order])}, "conflicting-labels": {}},
        ok=set(),
        note="220 of 800 test rows have the inputs of a training row to the cent; their label is the next quarter's, so many differ",
    )


# ---------------------------------------------------------------- planted: missing values filled in in the test export
def draw_anaemia(rng, n):
    age = np.clip(rng.normal(61, 15, n), 18, 97).round()
    sex = rng.choice(["F", "M"], n, p=[0.56, 0.44])
    hb = np.where(sex == "M", 13.2, 12.1) + rng.normal(0, 1.6, n)
    mcv = 88 + 1.6 * (hb - 12.6) + rng.normal(0, 5.5, n)
    crp = np.exp(rng.normal(1.9, 1.0, n))
    ferritin = np.exp(4.1 + 0.06 * (mcv - 88) + 0.18 * np.log(crp) + rng.normal(0, 0.7, n))
    egfr = np.clip(98 - 0.55 * (age - 40) + rng.normal(0, 14, n), 8, 130)
    hb, mcv, crp, ferritin, egfr = hb.round(1), mcv.round(1), crp.round(1), ferritin.round(1), egfr.round()
    ferritin[rng.random(n) < expit(-0.2 - 0.25 * (12.6 - hb))] = (
        np.nan
    )  # ordered more often when haemoglobin is low
    z = (
        -0.9
        - 0.55 * (hb - 12.6)
        - 0.10 * (mcv - 88)
        + np.where(np.isnan(ferritin), 0.0, -1.4 * (np.log(np.nan_to_num(ferritin, nan=1.0) + 0.1) - 4.1))
    )
    frame = pd.DataFrame(
        dict(age=age.astype(int), sex=sex, haemoglobin=hb, mcv=mcv, crp=crp, ferritin=ferritin, egfr=egfr)
    )
    return frame, expit(z)


@plant("iron deficiency: the vendor filled the missing ferritin of the test export")
def anaemia(rng):
    frame, p = draw_anaemia(rng, 2600)
    frame["iron_deficiency"] = flip(rng, p, [0, 1])
    frame["split"] = official(rng, 2600, 800)
    test = frame["split"] == "test"
    median = round(float(frame.loc[~test, "ferritin"].median()) + 0.037, 3)  # an atom that no measured value hits
    frame.loc[test, "ferritin"] = frame.loc[test, "ferritin"].fillna(median)
    return dict(
        frame=frame,
        opts=dict(label="iron_deficiency"),
        truth=bayes(draw_anaemia(rng, BIG)[1]),
        planted={"shift": {"columns": ["ferritin"]}},
        ok=set(),
        note="ferritin is missing in about 45 % of train and in no test row, where one constant stands instead (which tells as much: the truth is the same)",
    )


# ---------------------------------------------------------------- planted: a block of labels pasted one row too low
COATING = ["ok", "scratch", "blister", "void", "crack"]
COATING_PRIOR = np.array([0.34, 0.2, 0.18, 0.15, 0.13])
COATING_MEANS = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [3.2, -1.2, 0.4, 0, 1.8, 0],
        [-0.5, 3.4, 1.5, -1.5, 0, 1.0],
        [0, -1.0, -3.3, 2.0, 1.2, 0.5],
        [2.0, 2.2, -1.0, -2.4, -1.8, 2.2],
    ]
)
COATING_COV = 0.25 * np.ones((6, 6)) + 0.75 * np.eye(6)


def draw_coating(rng, n):
    k = rng.choice(5, n, p=COATING_PRIOR)
    return k, COATING_MEANS[k] + rng.multivariate_normal(np.zeros(6), COATING_COV, n)


def coating_posterior(z):
    log = np.stack([multivariate_normal(m, COATING_COV).logpdf(z) for m in COATING_MEANS], axis=1) + np.log(
        COATING_PRIOR
    )
    return softmax(log, axis=1)


@plant(
    "coating inspection: two hundred training labels pasted one row too low, the test set inspected again", "train"
)
def coating(rng):
    n, m = 2000, 600
    k, z = draw_coating(rng, n + m)
    scale, base = np.array([0.21, 1.4, 6.0, 0.035, 2.5, 14.0]), np.array([4.2, 62.0, 180.0, 0.9, 23.0, 310.0])
    x = (base + scale * z).round(4)
    frame = pd.DataFrame(
        x, columns=["film_um", "gloss_gu", "bake_temp_c", "viscosity_pas", "humidity_pct", "line_speed"]
    )
    frame["spray_head"] = rng.choice(["H1", "H2", "H3"], n + m)
    hours = rng.uniform(0, 900, n + m).round(1)
    hours[rng.random(n + m) < 0.06] = np.nan
    frame["hours_since_service"] = hours
    given = k.copy()
    start = int(rng.integers(300, 1500))
    given[start : start + 200] = k[start - 1 : start + 199]
    frame["finding"] = np.array(COATING)[given]
    frame["split"] = np.repeat(["train", "test"], [n, m])
    return dict(
        frame=frame,
        opts=dict(label="finding"),
        truth=bayes(coating_posterior(draw_coating(rng, BIG // 2)[1])),
        planted={"labels": {"rows": np.flatnonzero(given != k)}},
        ok=set(),
        note="labels of 200 consecutive training rows belong to the row above; the test labels are right, so the truth has no noise in it",
    )


# ---------------------------------------------------------------- planted: monthly rows of an employee, one outcome each
@plant("staff turnover: monthly pulse rows of 160 employees, shuffled")
def turnover(rng):
    staff = 160
    number = rng.choice(np.arange(10_200, 19_800), staff, replace=False)
    left = rng.permutation(np.arange(staff) < 56)
    months = rng.integers(5, 14, staff)
    who = rng.permutation(np.repeat(np.arange(staff), months))
    n = len(who)
    age = rng.integers(21, 63, staff)
    dept = rng.choice(["sales", "support", "it", "warehouse", "finance"], staff, p=[0.28, 0.22, 0.18, 0.22, 0.1])
    mood = rng.normal(0, 0.7, staff) - 0.5 * left
    pay = np.exp(rng.normal(8.05, 0.25, staff))
    engagement = np.clip(np.round(6.5 + 1.5 * mood[who] + rng.normal(0, 1.2, n)), 0, 10).astype(int)
    frame = pd.DataFrame(
        dict(
            emp_no=number[who],
            age=age[who],
            department=dept[who],
            gross_pay=(pay[who] * (1 + rng.gamma(1.0, 0.06, n))).round(2),
            engagement=engagement,
            overtime_h=rng.gamma(2.0, 4.0 - 1.0 * (mood[who] > 0)).round(1),
            sick_days=rng.poisson(0.6 + 0.5 * left[who]),
            training_h=rng.gamma(1.2, 2.0, n).round(1),
        )
    )
    frame.loc[rng.random(n) < 0.08, "training_h"] = np.nan
    frame["left_company"] = np.where(left[who], "left", "stayed")
    return dict(
        frame=frame,
        opts=dict(label="left_company"),
        truth=None,
        planted={"groups": {"columns": ["emp_no"]}},
        ok={"leak-feature"},
        note="each personnel number has 5 to 13 rows and one outcome: a random split knows most test employees",
    )


# ---------------------------------------------------------------- planted: the tracking changes late in a file in order of time
def draw_web(rng, n, late):
    late = np.broadcast_to(late, n)
    device = rng.choice(["mobile", "desktop", "tablet"], n, p=[0.6, 0.34, 0.06])
    channel = rng.choice(["organic", "paid", "email", "direct", "social"], n, p=[0.35, 0.25, 0.1, 0.2, 0.1])
    pages = 1 + rng.negative_binomial(1.4, 0.22, n)
    dwell = rng.gamma(2.0, 60.0, n).round(1)
    scroll = rng.beta(2, 2, n).round(3)
    load = np.exp(rng.normal(7.2, 0.4, n)).round()
    u = (dwell - 120) / 85
    z = (
        0.1
        + np.where(late, -1.5, 1.9) * u
        + 0.10 * (pages - 6)
        + 1.2 * (scroll - 0.5)
        + 0.6 * (channel == "email")
        - 0.4 * (device == "mobile")
    )
    frame = pd.DataFrame(
        dict(
            device=device,
            channel=channel,
            pages_viewed=pages,
            dwell_s=dwell,
            scroll_depth=scroll,
            load_ms=load.astype(int),
        )
    )
    return frame, expit(z)


@plant("web shop: the meaning of dwell time changes with a consent banner, late in a log in order of time")
def web(rng):
    n, change = 4000, 3240
    frame, p = draw_web(rng, n, np.arange(n) >= change)
    frame.insert(0, "session_ts", 1_743_465_600 + np.cumsum(rng.geometric(1 / 640, n)))
    frame["add_to_cart"] = flip(rng, p, [0, 1])
    early, late = bayes(draw_web(rng, BIG // 2, False)[1]), bayes(draw_web(rng, BIG // 2, True)[1])
    return dict(
        frame=frame,
        opts=dict(label="add_to_cart"),
        truth=early + (late - early) * (n - change) / n,
        planted={"order": {}, "index-feature": {"columns": ["session_ts"]}},
        ok={"groups"},
        note="from row 3240 on, long dwell times mean the opposite (tabs left open); the time tells which rule holds, so the truth is the mean of both",
    )


# ---------------------------------------------------------------- planted: a return reason that appears in the test year; dead columns
def draw_returns(rng, n, recall):
    group = rng.choice(["phone", "laptop", "audio", "household", "tools"], n, p=[0.28, 0.14, 0.2, 0.22, 0.16])
    price = np.exp(rng.normal(4.4, 0.6, n) + 1.1 * (group == "laptop") + 0.7 * (group == "phone")).round(2)
    days = rng.gamma(1.6, 12.0, n).round(1)
    opened = rng.choice(["sealed", "opened", "used"], n, p=[0.25, 0.4, 0.35])
    rating = np.where(rng.random(n) < 0.3, np.nan, rng.choice([1, 2, 3, 4, 5], n, p=[0.22, 0.13, 0.15, 0.2, 0.3]))
    low = np.where(np.isnan(rating), 0.0, 3 - np.nan_to_num(rating, nan=3.0))
    logits = np.stack(
        [
            0.5 + 1.8 * (opened == "sealed") - 0.03 * (days - 15),
            0.2 + 1.0 * low - 1.2 * (opened == "sealed") + 0.06 * (days - 15),
            -0.2 + 0.9 * (opened == "opened") - 0.5 * low,
            np.where(np.isin(group, ["phone", "tools"]) & (opened == "used"), 3.5 + 0.05 * (days - 15), -4.0)
            if recall
            else np.full(n, -np.inf),
        ],
        axis=1,
    )
    frame = pd.DataFrame(
        dict(product_group=group, price=price, days_since_purchase=days, condition=opened, review_stars=rating)
    )
    return frame, softmax(logits, axis=1)


@plant("returns: a battery recall that only the test year knows, and the leftovers of a failed join")
def returns(rng):
    names = ["changed mind", "defective", "wrong item", "battery recall"]
    old, p = draw_returns(rng, 2000, False)
    new, q = draw_returns(rng, 700, True)
    frame = pd.concat([old, new], ignore_index=True)
    frame.insert(2, "currency", "EUR")
    frame.insert(4, "warehouse_no", 14)
    frame["promo_ref"] = np.nan  # the join that failed
    frame["reason"] = np.concatenate([flip(rng, p, names), flip(rng, q, names)])
    frame["split"] = np.repeat(["train", "test"], [2000, 700])
    return dict(
        frame=frame,
        opts=dict(label="reason"),
        truth=bayes(draw_returns(rng, BIG, True)[1]),
        planted={"missing-classes": {}, "constant-columns": {"columns": ["currency", "warehouse_no"]}},
        ok={"shift"},
        note="about 13 % of the test rows have a class that train lacks; currency and warehouse_no never change, promo_ref is empty",
    )


# ---------------------------------------------------------------- planted: claims keyed in a second time
def draw_claims(rng, n):
    age = rng.uniform(18, 85, n)
    vehicle_age = rng.gamma(3.0, 2.6, n)
    mileage = rng.normal(14.0, 4.5, n) + 6.0 * vehicle_age
    premium = 320 + 9 * np.abs(age - 48) + rng.normal(0, 95, n)
    value = np.clip(31_000 - 1_900 * vehicle_age + rng.normal(0, 5_500, n), 900, None)
    estimate = rng.gamma(2.5, 1_100, n)
    hour = rng.uniform(0, 24, n)
    distance = rng.gamma(2.0, 9.0, n)
    cover = rng.choice(["liability", "part", "full"], n, p=[0.3, 0.25, 0.45])
    police = rng.choice(["yes", "no"], n, p=[0.35, 0.65])
    z = (
        -0.3
        + 0.9 * (estimate - 2_750) / 1_700
        - 0.6 * (value - 16_200) / 7_500
        + 0.9 * (distance < 8)
        - 0.9 * (police == "yes")
        + 0.7 * ((hour < 5) | (hour > 22))
        + 0.02 * (40 - age)
    )
    frame = pd.DataFrame(
        dict(
            driver_age=age.round(1),
            vehicle_age=vehicle_age.round(1),
            mileage_tkm=mileage.round(1),
            premium=premium.round(2),
            vehicle_value=value.round(),
            repair_estimate=estimate.round(2),
            hour_of_loss=hour.round(2),
            km_from_home=distance.round(1),
            cover=cover,
            police_report=police,
        )
    )
    return frame, expit(z)


@plant("motor claims: training claims keyed in a second time among the test claims")
def claims(rng):
    n, m, again = 1700, 600, 130
    frame, p = draw_claims(rng, n + m)
    y = flip(rng, p, ["paid", "investigated"])
    source, target = rng.choice(n, again, replace=False), n + rng.choice(m, again, replace=False)
    for column in frame:
        values = frame[column].to_numpy().copy()
        values[target] = values[source]
        frame[column] = values
    y[target] = y[source]
    frame.loc[target, "repair_estimate"] = (
        frame.loc[target, "repair_estimate"] * (1 + rng.uniform(0.001, 0.02, again) * rng.choice([-1, 1], again))
    ).round(2)
    frame.loc[target, "premium"] = (frame.loc[target, "premium"] + rng.uniform(0.5, 4.0, again)).round(
        2
    )  # with the fee of the second file
    frame.loc[target, "hour_of_loss"] = np.clip(
        frame.loc[target, "hour_of_loss"] + rng.choice([-0.25, 0.0, 0.25], again), 0, 24
    ).round(2)
    frame["handling"] = y
    frame["split"] = np.repeat(["train", "test"], [n, m])
    return dict(
        frame=frame,
        opts=dict(label="handling"),
        truth=bayes(draw_claims(rng, BIG)[1]),
        planted={"near-copies": {"rows": np.sort(target)}},
        ok=set(),
        note="130 of 600 test claims are training claims with another estimate (up to 2 %), a fee and sometimes a quarter of an hour",
    )


# ---------------------------------------------------------------- honest: few answers, many equal rows
def draw_survey(rng, n):
    latent = rng.normal(0.4, 1.0, n)

    def item(load, shift):
        return np.clip(np.round(3.4 + shift + load * latent + rng.normal(0, 0.6, n)), 1, 5).astype(int)

    a, b, c, d = item(0.9, 0.2), item(0.8, 0.0), item(0.7, 0.3), item(0.8, -0.4)
    tenure = rng.choice(["<1 y", "1-3 y", "3-10 y", ">10 y"], n, p=[0.18, 0.3, 0.34, 0.18])
    s = 0.5 * (a - 4) + 0.5 * (b - 4) + 0.3 * (c - 4) + 0.4 * (d - 3) + 0.2 * (tenure == "<1 y")
    p = softmax(np.stack([-0.6 - 1.1 * s, 0.5 + 0 * s, -0.1 + 1.3 * s], axis=1), axis=1)
    return pd.DataFrame(dict(q1_pay=a, q2_manager=b, q3_team=c, q4_workload=d, tenure=tenure)), p


@plant("staff survey: five answers that repeat on both sides of an official random split")
def survey(rng):
    frame, p = draw_survey(rng, 2600)
    frame["enps"] = flip(rng, p, ["detractor", "passive", "promoter"])
    frame["split"] = official(rng, 2600, 700)
    return dict(
        frame=frame,
        opts=dict(label="enps"),
        truth=bayes(draw_survey(rng, BIG)[1]),
        planted={},
        ok={"conflicting-labels", "duplicates"},
        note="most test rows equal a training row because people tick the same boxes; nothing was copied",
    )


# ---------------------------------------------------------------- honest: one column that decides, and useless identifiers
def draw_credit(rng, n):
    state = rng.choice(4, n, p=[0.62, 0.14, 0.12, 0.12])
    dpd = np.select(
        [state == 0, state == 1, state == 2],
        [0, rng.integers(1, 30, n), rng.integers(30, 75, n)],
        rng.integers(75, 120, n),
    )
    income = np.exp(rng.normal(7.7, 0.45, n)).round(-1)
    limit = (income * rng.uniform(0.5, 4.0, n)).round(-2)
    used = rng.beta(1.2 + 0.02 * dpd, 1.8).round(3)
    months = rng.integers(3, 220, n)
    region = rng.choice(["N", "NE", "S", "SW", "W"], n)
    bureau = np.clip(640 - 1.4 * dpd + rng.normal(0, 55, n), 300, 850).round()
    bureau[rng.random(n) < 0.22] = np.nan
    frame = pd.DataFrame(
        dict(
            days_past_due=dpd,
            net_income=income,
            credit_limit=limit,
            utilisation=used,
            months_on_book=months,
            region=region,
            bureau_score=bureau,
        )
    )
    return frame, expit(np.clip(0.22 * (dpd - 74), -4.2, 4.2) + 0.25 * (used - 0.5))


@plant("retail credit: days past due decide the default, as the contract says", "train")
def credit(rng):
    n = 3000
    frame, p = draw_credit(rng, n)
    frame.insert(0, "account_no", rng.choice(np.arange(30_000_000, 39_999_999), n, replace=False))
    frame.insert(
        1,
        "iban",
        [f"DE{int(a):02d} {int(b):010d}" for a, b in zip(rng.integers(10, 99, n), rng.integers(0, 10**10, n))],
    )
    frame["default_90d"] = flip(rng, p, ["no", "yes"])
    return dict(
        frame=frame,
        opts=dict(label="default_90d"),
        truth=bayes(draw_credit(rng, BIG)[1]),
        planted={},
        ok={"leak-feature"},
        note="days_past_due is known at the time of prediction and nearly the whole rule; account numbers are random and unsorted",
    )


# ---------------------------------------------------------------- honest: test depots are other depots, drawn like those of train
def draw_depots(rng, depots, rows):
    d = np.repeat(np.arange(depots), rows)
    n = len(d)
    effect = rng.normal(0, 1, (depots, 4))
    distance = np.exp(3.3 + 0.45 * effect[d, 0] + rng.normal(0, 0.4, n)).round(1)
    stops = np.clip(np.round(46 + 10 * effect[d, 1] + rng.normal(0, 9, n)), 4, None)
    weight = np.clip(7.5 + 1.6 * effect[d, 2] + rng.gamma(2.0, 1.8, n), 0.1, None).round(2)
    start = (6.6 + 0.5 * effect[d, 3] + rng.normal(0, 0.4, n)).round(2)
    rain = np.where(rng.random(n) < 0.6, 0.0, rng.gamma(0.8, 5.0, n)).round(1)
    van = rng.choice(["van 3.5t", "truck 7.5t", "e-van"], n, p=[0.6, 0.15, 0.25])
    z = (
        -0.4
        + 1.6 * (np.log(distance + 1) - 3.3)
        + 0.06 * (stops - 46)
        + 0.9 * (start - 6.6)
        + 0.07 * rain
        + 0.5 * (van == "truck 7.5t")
    )
    frame = pd.DataFrame(
        dict(
            depot=d,
            route_km=distance,
            stops=stops.astype(int),
            load_t=weight,
            start_h=start,
            rain_mm=rain,
            vehicle=van,
        )
    )
    return frame, expit(z)


@plant("parcel routes: the official test set has depots of its own")
def depots(rng):
    sizes = rng.integers(25, 46, 58)
    frame, p = draw_depots(rng, 58, sizes)
    code = np.array([f"DEP-{k:03d}" for k in rng.choice(np.arange(100, 400), 58, replace=False)])
    test = np.isin(frame["depot"], rng.choice(58, 24, replace=False))
    frame["depot"] = code[frame["depot"]]
    frame["late"] = flip(rng, p, ["on time", "late"])
    frame["split"] = np.where(test, "test", "train")
    frame = frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)
    return dict(
        frame=frame,
        opts=dict(label="late"),
        truth=bayes(draw_depots(rng, 8000, 25)[1]),
        planted={},
        ok=set(),
        note="34 depots train, 24 others test, chosen at random: rows differ between depots, depots are drawn alike",
    )


# ---------------------------------------------------------------- honest: machine recipes put rows close together
@plant("injection moulding: forty recipes, and readings that hardly leave their set-points")
def moulding(rng):
    n, recipes = 2100, 40
    weight = 1 / np.arange(1, recipes + 1) ** 0.8
    weight /= weight.sum()
    points = np.stack(
        [
            rng.uniform(190, 270, recipes),
            rng.uniform(400, 1200, recipes),
            rng.uniform(8, 40, recipes),
            rng.uniform(20, 90, recipes),
        ],
        axis=1,
    )
    scrap = expit(rng.normal(-0.9, 1.5, recipes))
    r = rng.choice(recipes, n, p=weight)
    x = points[r] + rng.normal(0, [0.25, 1.5, 0.06, 0.2], (n, 4))
    frame = pd.DataFrame(x.round(2), columns=["melt_temp_c", "pressure_bar", "cycle_s", "mould_temp_c"])
    frame["cushion_mm"] = (5 + 0.004 * points[r, 1] + rng.normal(0, 0.02, n)).round(3)
    frame["scrap"] = flip(rng, scrap[r], ["good", "scrap"])
    frame["split"] = official(rng, n, 600)
    return dict(
        frame=frame,
        opts=dict(label="scrap"),
        truth=float(weight @ np.minimum(scrap, 1 - scrap)),
        planted={},
        ok=set(),
        note="every test row has a training row of the same recipe close by; the split is random, and scrap is chance given the recipe",
    )


# ---------------------------------------------------------------- honest: rare, but not too rare; flags that almost never change
def draw_cards(rng, fraud):
    n = len(fraud)
    amount = rng.normal(np.where(fraud, 4.6, 3.5), 1.1)
    speed = poisson.rvs(np.where(fraud, 5.0, 1.6), random_state=rng)
    km = rng.normal(np.where(fraud, 4.2, 2.0), 1.3)
    entry = np.array(["chip", "contactless", "online", "magstripe"])
    pf, pg = np.array([0.08, 0.10, 0.67, 0.15]), np.array([0.32, 0.38, 0.28, 0.02])
    e = np.where(fraud, rng.choice(4, n, p=pf), rng.choice(4, n, p=pg))
    log = (
        norm.logpdf(amount, 4.6, 1.1)
        - norm.logpdf(amount, 3.5, 1.1)
        + poisson.logpmf(speed, 5.0)
        - poisson.logpmf(speed, 1.6)
    )
    log += norm.logpdf(km, 4.2, 1.3) - norm.logpdf(km, 2.0, 1.3) + np.log(pf[e] / pg[e]) + np.log(1 / 26)
    frame = pd.DataFrame(
        dict(
            amount=np.exp(amount).round(4), tx_last_24h=speed, km_from_last=np.exp(km).round(4), entry_mode=entry[e]
        )
    )
    return frame, expit(log)


@plant("card payments: one fraud in 27, and flags that almost never change")
def cards(rng):
    fraud = rng.permutation(np.arange(5400) < 200)  # 26 to 1
    frame, _ = draw_cards(rng, fraud)
    split = np.empty(5400, dtype="<U5")
    for value in (False, True):
        rows = np.flatnonzero(fraud == value)
        split[rows] = rng.permutation(
            np.repeat(["train", "test"], [3 * len(rows) // 4, len(rows) - 3 * len(rows) // 4])
        )
    override, vip = np.zeros(5400, dtype=int), np.array(["N"] * 5400)
    override[rng.choice(5400, 3, replace=False)] = 1
    vip[rng.integers(5400)] = "Y"
    frame["manual_override"], frame["vip"] = override, vip
    frame["is_fraud"], frame["split"] = fraud.astype(int), split
    _, p = draw_cards(rng, rng.random(BIG) < 1 / 27)
    return dict(
        frame=frame,
        opts=dict(label="is_fraud"),
        truth=bayes(p),
        planted={},
        ok=set(),
        note="26 to 1 in train and in test: below the documented limit; manual_override differs in three rows, vip in one, so neither is constant",
    )


# ---------------------------------------------------------------- honest: laboratory panels that were not ordered
def draw_panels(rng, n):
    sex = rng.choice(["f", "m"], n)
    band = rng.choice(["18-39", "40-59", "60-74", "75+"], n, p=[0.2, 0.3, 0.3, 0.2])
    ward = rng.choice(
        np.array(["surgery", "medicine", "cardiology", None], dtype=object), n, p=[0.35, 0.4, 0.17, 0.08]
    )
    old = np.isin(band, ["60-74", "75+"])
    trop = np.exp(rng.normal(2.4 + 0.4 * old, 0.9)).round(1)
    bnp = np.exp(0.5 * np.log(trop + 1) + rng.normal(3.6, 0.7, n)).round()
    na, k, crea = (
        rng.normal(139, 3.5, n).round(),
        rng.normal(4.2, 0.45, n).round(1),
        np.exp(rng.normal(4.4 + 0.2 * old, 0.3)).round(),
    )
    heart, basic = rng.random(n) < np.where(ward == "cardiology", 0.95, 0.22), rng.random(n) < 0.5
    z = -1.0 + 0.7 * old + 0.4 * (ward == "cardiology") + 0.2 * (sex == "m") + 0.5 * heart - 0.2 * basic
    z = (
        z
        + np.where(heart, 1.2 * (np.log(trop + 1) - 2.8) + 0.5 * (np.log(bnp + 1) - 4.9), 0)
        + np.where(basic, 0.012 * (crea - 90) - 0.09 * (na - 139), 0)
    )
    frame = pd.DataFrame(
        dict(
            sex=sex,
            age_band=band,
            ward=ward,
            troponin=np.where(heart, trop, np.nan),
            nt_probnp=np.where(heart, bnp, np.nan),
            sodium=np.where(basic, na, np.nan),
            potassium=np.where(basic, k, np.nan),
            creatinine=np.where(basic, crea, np.nan),
        )
    )
    return frame, expit(z)


@plant("admissions: laboratory panels that were never ordered leave rows of three categories")
def panels(rng):
    frame, p = draw_panels(rng, 2500)
    frame["complication"] = flip(rng, p, [0, 1])
    frame["split"] = official(rng, 2500, 650)
    return dict(
        frame=frame,
        opts=dict(label="complication"),
        truth=bayes(draw_panels(rng, BIG)[1]),
        planted={},
        ok={"conflicting-labels", "duplicates"},
        note="a third of the rows have no laboratory value at all and repeat naturally in train and test, with labels of chance",
    )


# ---------------------------------------------------------------- honest: patients of their own in the test set, without a name
def draw_wearable(rng, patients, windows):
    q = np.repeat(np.arange(patients), windows)
    n = len(q)
    mean = rng.normal(0, 1, (patients, 6))
    z = mean[q] + rng.normal(0, 0.06, (n, 6))
    x = (np.array([71, 42, 15.5, 33.8, 0.8, 97.0]) + np.array([9, 14, 2.2, 0.9, 0.3, 1.2]) * z).round(2)
    s = (x - [71, 42, 15.5, 33.8, 0.8, 97.0]) / [9, 14, 2.2, 0.9, 0.3, 1.2]
    frame = pd.DataFrame(x, columns=["hr_mean", "hrv_rmssd", "resp_rate", "skin_temp", "activity_g", "spo2"])
    return frame, expit(-0.2 + 1.3 * s[:, 0] - 1.5 * s[:, 1] + 0.8 * s[:, 2])


@plant("wearables: windows of 46 patients train, of 26 other patients test, without a patient number")
def wearable(rng):
    windows = rng.integers(18, 34, 72)
    frame, p = draw_wearable(rng, 72, windows)
    test = np.repeat(rng.permutation(np.arange(72) < 26), windows)
    frame["stress"] = flip(rng, p, ["calm", "stressed"])
    frame["split"] = np.where(test, "test", "train")
    frame = frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)
    return dict(
        frame=frame,
        opts=dict(label="stress"),
        truth=bayes(draw_wearable(rng, 20_000, 10)[1]),
        planted={},
        ok=set(),
        note="rows come in tight clusters, each a patient and each in one split; patients were assigned at random, so nothing has shifted",
    )
