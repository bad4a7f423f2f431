"""The fused kernel: mean over seeds and entropy in one pass over the probabilities, compiled by numba.

Half precision is decoded by integer arithmetic in registers, and the logarithm is an exponent plus a short odd
series, so that the compiler can do both for many classes at once. Sums run in fixed lanes in a fixed order, without
any permission to reorder them: a row gives the same bits wherever and with whatever neighbours it is computed.
"""

# mypy: ignore-errors
# numba reads the functions below as they stand: its decorators and intrinsics carry no types.

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from hardpan.execution.compiling import compiled

LANES = 16
_LOG2_E2 = np.float32(2.8853900817779268)  # 2 / ln 2
_ROOT_HALF = np.int32(0x3F3504F3)  # the bits of √½: mantissas are centred around 1


@intrinsic
def _bits_as_float(typingctx, bits):
    """The float32 that has these 32 bits."""

    def code(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float32))

    return types.float32(types.int32), code


@intrinsic
def _float_as_bits(typingctx, number):
    """The 32 bits of a float32."""

    def code(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.int32))

    return types.int32(types.float32), code


@njit(inline="always", error_model="numpy")
def _decode_half(half):
    """A half-precision number of at least 0, from its 16 bits; the two cases meet without a branch."""
    bits = np.int32(half & np.uint16(0x7FFF)) << np.int32(13)
    normal = _bits_as_float(np.int32(bits + np.int32(112 << 23)))
    subnormal = np.float32(_bits_as_float(np.int32(bits + np.int32(113 << 23))) - np.float32(6.103515625e-05))
    return normal if bits >= np.int32(1 << 23) else subnormal


@njit(inline="always", error_model="numpy")
def _x_log2_x(x):
    """x·log₂x, 0 at 0: log₂ from the exponent and 2·artanh of the centred mantissa."""
    bits = _float_as_bits(x)
    exponent = np.int32(np.int32(bits - _ROOT_HALF) >> np.int32(23))
    mantissa = _bits_as_float(np.int32(bits - np.int32(exponent << np.int32(23))))
    f = np.float32(mantissa - np.float32(1.0))
    s = np.float32(f / np.float32(f + np.float32(2.0)))
    q = np.float32(s * s)
    series = np.float32(1 / 9) * q + np.float32(1 / 7)
    series = series * q + np.float32(1 / 5)
    series = series * q + np.float32(1 / 3)
    series = series * q + np.float32(1.0)
    return np.float32(x * (np.float32(exponent) + _LOG2_E2 * s * series))


@njit(inline="always", error_model="numpy")
def _sum_by_halves(numbers):
    """Sum of float32 numbers, which are used up: few roundings, in an order that nothing changes."""
    width = numbers.size
    while width > LANES:  # halves are added to one another
        width //= 2
        first, second = numbers[:width], numbers[width : 2 * width]
        for c in range(width):
            first[c] += second[c]
    total = 0.0
    for c in range(width):
        total += np.float64(numbers[c])
    return total


@njit(inline="always", error_model="numpy")
def _entropy(total, classes, scale):
    """Bits of entropy of ``total · scale``; ``total`` is used up, and zero from ``classes`` on."""
    for c in range(classes):
        total[c] = _x_log2_x(np.float32(total[c] * scale))
    return 0.0 - _sum_by_halves(total)


@njit(inline="always", error_model="numpy")
def _entropy_room(classes):
    width = LANES
    while width < classes:
        width *= 2
    return np.zeros(width, dtype=np.float32)


@compiled(nogil=True, error_model="numpy")
def decode(probs, epoch, start, out):
    """Fill out (S, rows, C) with the float32 of ``probs`` (S, T, N, C), the uint16 of numbers of at least 0."""
    for s in range(out.shape[0]):
        for i in range(out.shape[1]):
            row, into = probs[s, epoch, start + i], out[s, i]
            for c in range(out.shape[2]):
                into[c] = _decode_half(row[c])


@compiled(nogil=True, error_model="numpy")
def half_entropies(probs, seeds, epoch, start, stop, tolerance, out):
    """Fill out (rows,) with the entropy of the mean over seeds; ``probs`` is (S, T, N, C) as uint16.

    Returns the first row that is no probability (negative, NaN, or a sum off by more than ``tolerance``), or -1.
    """
    classes = probs.shape[3]
    total, room = _entropy_room(classes), _entropy_room(classes)
    scale = np.float32(1.0 / seeds.size)
    for i in range(start, stop):
        total[:] = np.float32(0.0)
        largest = np.uint16(0)
        for s in range(seeds.size):
            row = probs[seeds[s], epoch, i]
            for c in range(classes):
                total[c] += _decode_half(row[c])
            for c in range(classes):
                largest = max(largest, row[c])
        # NaN and infinity decode to large numbers, so their sums give them away; the sign does not.
        room[:] = total
        if largest > np.uint16(0x8000) or not abs(_sum_by_halves(room) * scale - 1.0) <= tolerance:
            return i
        out[i - start] = _entropy(total, classes, scale)
    return -1


@compiled(nogil=True, error_model="numpy")
def single_entropies(probs, seeds, epoch, start, stop, tolerance, out):
    """As :func:`half_entropies`, for float32."""
    classes = probs.shape[3]
    total, room = _entropy_room(classes), _entropy_room(classes)
    scale = np.float32(1.0 / seeds.size)
    for i in range(start, stop):
        total[:] = np.float32(0.0)
        smallest = np.float32(0.0)
        for s in range(seeds.size):
            row = probs[seeds[s], epoch, i]
            for c in range(classes):
                total[c] += row[c]
                smallest = row[c] if row[c] < smallest else smallest
        room[:] = total
        if smallest < 0 or not abs(_sum_by_halves(room) * scale - 1.0) <= tolerance:
            return i
        out[i - start] = _entropy(total, classes, scale)
    return -1
