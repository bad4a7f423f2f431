# mypy: ignore-errors
"""Triton kernels for the steps of a Glow level; :mod:`hardpan.flows.gpu_steps` has the same in plain torch.

Used only where there is a GPU. All tensors are contiguous; M = B·H·W places, one row each.
"""

import torch


class _AbsentTriton:
    """Stands in for Triton where it is not installed: this module can be read, and its kernels not run."""

    constexpr = object

    @staticmethod
    def jit(function):
        """Leave a kernel as it is written."""
        return function


try:
    import triton
    import triton.language as tl
except ImportError:
    triton = tl = _AbsentTriton

AVAILABLE = triton is not _AbsentTriton

# Blocks of the masked product where much, or little, is summed; chosen on an H200.
DEEP = (128, 128, 64, 4, 3)
SHALLOW = (128, 256, 32, 8, 4)


@triton.jit
def _patches(x, out, total, stride, WIDTH: tl.constexpr, PLACES: tl.constexpr, CHANNELS: tl.constexpr,
             COLUMNS: tl.constexpr, SIGN: tl.constexpr, REACH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    # out[p, tap, c] = seen(x[p + SIGN·offset(tap), c]), zero outside the image and in columns from 9·CHANNELS on
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row, column = at // COLUMNS, (at % COLUMNS).to(tl.int32)
    tap, channel = column // CHANNELS, column % CHANNELS
    place = (row % PLACES).to(tl.int32)
    down, right = SIGN * (tap // 3 - 1), SIGN * (tap % 3 - 1)
    high, across = place // WIDTH + down, place % WIDTH + right
    inside = (high >= 0) & (high < PLACES // WIDTH) & (across >= 0) & (across < WIDTH)
    inside = inside & (column < 9 * CHANNELS) & (at < total)
    value = tl.load(x + (row + down * WIDTH + right) * stride + channel, mask=inside, other=0.0)
    if REACH > 0:
        value = value / tl.sqrt(1.0 + (value / REACH) * (value / REACH))
    tl.store(out + at, value.to(out.dtype.element_ty), mask=at < total)


def patches(x, channels, columns, width, places, sign, dtype, reach=0.0):
    """The first ``channels`` of x (M, ·), as seen, with their 3×3 neighbours, as (M, columns)."""
    out = torch.empty(x.shape[0], columns, dtype=dtype, device=x.device)
    total = out.numel()
    _patches[(triton.cdiv(total, 1024),)](
        x,
        out,
        total,
        x.stride(0),
        WIDTH=width,
        PLACES=places,
        CHANNELS=channels,
        COLUMNS=columns,
        SIGN=sign,
        REACH=reach,
        BLOCK=1024,
    )
    return out


@triton.jit
def _fold_add(taps, out, y, total, stride, columns, WIDTH: tl.constexpr, PLACES: tl.constexpr,
              CHANNELS: tl.constexpr, SIGN: tl.constexpr, REACH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    # out[p, c] += slope of what is seen at y[p, c] · Σ_tap taps[p + SIGN·offset(tap), tap, c]
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row, channel = at // CHANNELS, (at % CHANNELS).to(tl.int32)
    place = (row % PLACES).to(tl.int32)
    place_at = row * stride + channel
    value = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in tl.static_range(9):
        down = SIGN * (tap // 3 - 1)
        right = SIGN * (tap % 3 - 1)
        high, across = place // WIDTH + down, place % WIDTH + right
        inside = (high >= 0) & (high < PLACES // WIDTH) & (across >= 0) & (across < WIDTH) & (at < total)
        said = taps + (row + down * WIDTH + right) * columns + tap * CHANNELS + channel
        value += tl.load(said, mask=inside, other=0.0).to(tl.float32)
    if REACH > 0:
        here = tl.load(y + place_at, mask=at < total, other=0.0) / REACH
        lower = 1.0 + here * here
        value = value / (lower * tl.sqrt(lower))
    value += tl.load(out + place_at, mask=at < total, other=0.0)
    tl.store(out + place_at, value, mask=at < total)


def fold_add(taps, out, y, channels, width, places, sign, reach=0.0):
    """Add to the first ``channels`` of out (M, ch) what their neighbours say, times the slope at y (M, ch)."""
    total = out.shape[0] * channels
    _fold_add[(triton.cdiv(total, 512),)](
        taps, out, y, total, out.stride(0), taps.shape[1],
        WIDTH=width, PLACES=places, CHANNELS=channels, SIGN=sign, REACH=reach, BLOCK=512,
    )  # fmt: skip


@triton.jit
def _sigmoid(x):
    # exp of a negative number only: nothing overflows
    small = tl.exp(-tl.abs(x))
    return tl.where(x < 0, small, 1.0) / (1.0 + small)


@triton.jit
def _couple(taps, bias, y, z, raw, log_det, columns,
            START: tl.constexpr, LEAST: tl.constexpr, SPAN: tl.constexpr, WIDTH: tl.constexpr,
            PLACES: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    # one program an image
    image = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    active = at < PLACES * HALF
    place, channel = at // HALF, at % HALF
    row = image * PLACES + place
    scale = tl.load(bias + channel, mask=active, other=0.0)
    shift = tl.load(bias + HALF + channel, mask=active, other=0.0)
    for tap in tl.static_range(9):
        down = tap // 3 - 1
        right = tap % 3 - 1
        high, across = place // WIDTH + down, place % WIDTH + right
        inside = (high >= 0) & (high < PLACES // WIDTH) & (across >= 0) & (across < WIDTH) & active
        said = taps + (row + down * WIDTH + right) * columns + tap * 2 * HALF + channel
        scale += tl.load(said, mask=inside, other=0.0)
        shift += tl.load(said + HALF, mask=inside, other=0.0)
    tl.store(raw + row * 2 * HALF + channel, scale, mask=active)
    tl.store(raw + row * 2 * HALF + HALF + channel, shift, mask=active)
    scale = LEAST + SPAN * _sigmoid(scale + START)
    here = row * 2 * HALF + channel
    kept = tl.load(y + here, mask=active, other=0.0)
    moved = tl.load(y + here + HALF, mask=active, other=0.0)
    tl.store(z + here, kept, mask=active)
    tl.store(z + here + HALF, moved * scale + shift, mask=active)
    total = tl.sum(tl.where(active, tl.log(scale), 0.0), 0)
    tl.store(log_det + image, tl.load(log_det + image) + total)


def couple(taps, bias, y, log_det, width, places, bounds):
    """Apply an affine coupling to y (M, ch): output (M, ch), raw parameters (M, ch); adds to log_det (B,)."""
    z, raw, half = torch.empty_like(y), torch.empty_like(y), y.shape[1] // 2
    block = triton.next_power_of_2(places * half)
    _couple[(y.shape[0] // places,)](
        taps, bias, y, z, raw, log_det, taps.shape[1],
        START=bounds.start, LEAST=bounds.least, SPAN=bounds.span,
        WIDTH=width, PLACES=places, HALF=half, BLOCK=block,
        num_warps=min(8, max(1, block // 256)),
    )  # fmt: skip
    return z, raw


@triton.jit
def _couple_back(gz, g_log_det, raw, y, gy, g_raw, total,
                 START: tl.constexpr, LEAST: tl.constexpr, SPAN: tl.constexpr, PLACES: tl.constexpr,
                 HALF: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    active = at < total
    row, channel = at // HALF, at % HALF
    here = row * 2 * HALF + channel
    bent = _sigmoid(tl.load(raw + here, mask=active, other=0.0) + START)
    scale = LEAST + SPAN * bent
    g_moved = tl.load(gz + here + HALF, mask=active, other=0.0)
    moved = tl.load(y + here + HALF, mask=active, other=0.0)
    g_scale = g_moved * moved + tl.load(g_log_det + row // PLACES, mask=active, other=0.0) / scale
    tl.store(gy + here, tl.load(gz + here, mask=active, other=0.0), mask=active)
    tl.store(gy + here + HALF, g_moved * scale, mask=active)
    tl.store(g_raw + here, g_scale * SPAN * bent * (1.0 - bent), mask=active)
    tl.store(g_raw + here + HALF, g_moved, mask=active)


def couple_back(gz, g_log_det, raw, y, places, bounds):
    """Gradients of y and of the raw parameters, both (M, ch)."""
    gy, g_raw, half = torch.empty_like(y), torch.empty_like(y), y.shape[1] // 2
    total = y.shape[0] * half
    _couple_back[(triton.cdiv(total, 512),)](
        gz,
        g_log_det,
        raw,
        y,
        gy,
        g_raw,
        total,
        START=bounds.start,
        LEAST=bounds.least,
        SPAN=bounds.span,
        PLACES=places,
        HALF=half,
        BLOCK=512,
    )
    return gy, g_raw


@triton.jit
def _masked_product(
    a,
    w,
    hidden,
    out,
    sums,
    rows,
    inner,
    outer,
    WHOLE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    # out = (a @ wᵀ) where hidden > 0, and the column sums of each block of rows; w is (outer, inner).
    # WHOLE: all sizes are multiples of their blocks, so that nothing in the loop needs a mask.
    across = tl.cdiv(outer, BLOCK_N)
    block = tl.program_id(0) // across
    m = block.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (tl.program_id(0) % across) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    left_at = a + m[:, None] * inner + k[None, :]
    right_at = w + n[None, :] * inner + k[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, inner, BLOCK_K):
        if WHOLE:
            left = tl.load(left_at)
            right = tl.load(right_at)
        else:
            in_k = start + k < inner
            left = tl.load(left_at, mask=(m < rows)[:, None] & in_k[None, :], other=0.0)
            right = tl.load(right_at, mask=(n < outer)[None, :] & in_k[:, None], other=0.0)
        total = tl.dot(left, right, total)
        left_at += BLOCK_K
        right_at += BLOCK_K
    inside = (m < rows)[:, None] & (n < outer)[None, :]
    place = m[:, None] * outer + n[None, :]
    alive = tl.load(hidden + place, mask=inside, other=0.0) > 0
    total = tl.where(alive, total, 0.0)
    tl.store(out + place, total.to(out.dtype.element_ty), mask=inside)
    tl.store(sums + block * outer + n, tl.sum(total, 0), mask=n < outer)


def masked_product(a, w, hidden, config=None):
    """(a @ wᵀ)·[hidden > 0] for a (M, inner), w (outer, inner), hidden (M, outer); and its column sums (outer,).

    ``config`` is (rows, columns and depth of a block, warps, stages).
    """
    if a.dtype == torch.float32:  # Triton would round the factors to tf32
        out = (a @ w.T) * (hidden > 0)
        return out, out.sum(0)
    rows, inner = a.shape
    outer = w.shape[0]
    out = torch.empty_like(hidden)
    block_m, block_n, block_k, warps, stages = config or (DEEP if inner >= 128 else SHALLOW)
    block_n = min(block_n, triton.next_power_of_2(max(outer, 16)))
    blocks = triton.cdiv(rows, block_m)
    sums = torch.empty(blocks, outer, dtype=torch.float32, device=a.device)
    whole = rows % block_m == 0 and outer % block_n == 0 and inner % block_k == 0
    _masked_product[(blocks * triton.cdiv(outer, block_n),)](
        a, w, hidden, out, sums, rows, inner, outer,
        WHOLE=whole, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out, sums.sum(0)
