"""Exact nearest neighbours in l2 on a GPU: the same bits as :func:`hardpan.neighbors.exact.nearest`.

Products in float32 choose candidates; their distances are then computed in full, in the order in which the CPU
adds. A bound on the rounding error shows that no other reference can be among the nearest; queries for which it
does not (where there are many ties, for example) are searched again with more candidates.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = 65_536  # references on the device at a time
_QUERY_BYTES = 2**30  # of queries in float32 on the device at a time
_TILE_BYTES = 2**30  # of products at a time
_GROUP = 16  # neighbouring products of which only the least is ranked first
_SPARE = 22  # candidates beyond k
_MORE = 32  # times as many candidates where they were too few
_MOST_UNSURE = 2**16  # candidates of the queries that are searched again together
_PAIRS_BYTES = 2**28  # of full distances at a time
_UNIT = 2.0**-24


def nearest_on_gpu(
    queries: NDArray[Any], references: NDArray[Any], k: int, *, same: bool = False, device: str = "cuda"
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The k nearest references of every query in l2, exact; ties go to the lower number.

    Arguments and results are those of :func:`hardpan.neighbors.exact.nearest`, and ``device`` is a device of torch,
    such as ``cuda`` or ``cuda:1``.
    """
    import torch

    kind, _, number = device.partition(":")
    count = torch.cuda.device_count()
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise InputError(f"must be cpu, cuda or cuda:N; got {device!r}", argument="device")
    if kind == "cuda" and int(number or 0) >= count:
        raise InputError(f"must be cpu or one of {count} GPUs here; got {device!r}", argument="device")
    search = _GpuSearch(references, k, same, torch.device(device))
    rows = max(1, _QUERY_BYTES // (4 * queries.shape[1]))
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad():
            parts = [
                search.nearest(queries[i : i + rows], np.arange(i, min(i + rows, len(queries))), k + _SPARE)
                for i in range(0, len(queries), rows)
            ]
    finally:
        torch.set_float32_matmul_precision(precision)
    return np.sqrt(np.concatenate([block[0] for block in parts])), np.concatenate([block[1] for block in parts])


class _GpuSearch:
    """References, and what all queries share."""

    def __init__(self, references: NDArray[Any], k: int, same: bool, device: Any) -> None:
        import torch

        self.k, self.same, self.device = k, same, device
        self.references = _tensor_for_gpu(references)  # on the device where they need at most a third of it
        if device.type == "cuda" and references.nbytes < torch.cuda.mem_get_info(device)[0] / 3:
            self.references = self.references.to(device)
        totals = [block.sum(dim=0, dtype=torch.float64) for block in torch.split(self.references, _BLOCK)]
        self.centre = (torch.stack(totals).sum(dim=0) / len(references)).round().to(device)

    def _centred(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows less the centre in float32, and their squared lengths in float64."""
        wide = rows.to(self.device).double() - self.centre
        return wide.float(), wide.square().sum(dim=1)

    def nearest(
        self, queries: NDArray[Any], own: NDArray[np.int64], count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Squared distances and numbers (Q, k) from ``count`` candidates each, or more where that is too few.

        ``own`` (Q,) are the queries' own numbers among the references, where they are some.
        """
        if count < len(self.references):
            numbers, limit = self._candidates(queries, count)
        else:
            numbers = np.broadcast_to(np.arange(len(self.references)), (len(queries), len(self.references)))
            limit = np.full(len(queries), np.inf)
        squared = self._squared(queries, numbers)
        if self.same:
            squared[numbers == own[:, None]] = np.inf
        order = np.lexsort((numbers, squared))[:, : self.k]
        squared, numbers = np.take_along_axis(squared, order, axis=1), np.take_along_axis(numbers, order, axis=1)
        unsure = np.flatnonzero(squared[:, -1] >= limit)
        for rows in np.array_split(unsure, -(-len(unsure) * count // _MOST_UNSURE)) if len(unsure) else []:
            squared[rows], numbers[rows] = self.nearest(queries[rows], own[rows], _MORE * count)
        return squared, numbers

    def _candidates(self, queries: NDArray[Any], count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Numbers (Q, count), and squared distances (Q,) that every other reference has at least."""
        import torch

        q, lengths = self._centred(_tensor_for_gpu(queries))
        best = torch.full((len(q), count), torch.inf, device=self.device)
        who = torch.full((len(q), count), -1, dtype=torch.int64, device=self.device)
        longest = 0.0
        for number, block in enumerate(torch.split(self.references, _BLOCK)):
            x, squares = self._centred(block)
            longest = max(longest, float(squares.max().sqrt()))
            step = max(1, _TILE_BYTES // (4 * len(block)))
            for start in range(0, len(q), step):
                rows = slice(start, start + step)
                low = torch.addmm(squares.float(), q[rows], x.T, alpha=-2.0)
                values, places = _least_of_every_row(low, count)
                values, places = (
                    torch.cat([best[rows], values], 1),
                    torch.cat([who[rows], places + number * _BLOCK], 1),
                )
                best[rows], order = values.topk(count, dim=1, largest=False)
                who[rows] = places.gather(1, order)
        reach = (lengths.sqrt() + longest).square()
        slack = (q.shape[1] + 16) * _UNIT * reach
        limit = best[:, -1].double() + lengths - slack
        return who.cpu().numpy(), limit.cpu().numpy()

    def _squared(self, queries: NDArray[Any], numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Squared distances (Q, P) in full, dimension after dimension as on the CPU."""
        import torch

        out = np.empty(numbers.shape)
        step = max(1, _PAIRS_BYTES // (8 * queries.shape[1] * numbers.shape[1]))
        for start in range(0, len(queries), step):
            rows = slice(start, start + step)
            places = _tensor_for_gpu(numbers[rows]).to(self.references.device)
            others = self.references[places.ravel()].to(self.device).view(*places.shape, -1)
            own = _tensor_for_gpu(queries[rows]).to(self.device)
            differences = (own[:, None].double() - others.double()).permute(2, 0, 1).contiguous()
            total = torch.zeros(places.shape, dtype=torch.float64, device=self.device)
            for difference in differences:
                total += difference * difference
            out[rows] = total.cpu().numpy()
        return out


def _tensor_for_gpu(array: NDArray[Any]) -> Tensor:
    """The array as a tensor, without a copy where it is contiguous; nothing here writes to it."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(np.ascontiguousarray(array))


def _least_of_every_row(low: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` least values of every row and where they are (all, where a row has fewer).

    They lie in the groups with the ``count`` least minima, so most of a row is only reduced, not ranked.
    """
    n = low.shape[1]
    if n <= _GROUP * count or n % _GROUP:
        values, places = low.topk(min(count, n), dim=1, largest=False)
        return values, places
    groups = low.view(len(low), -1, _GROUP)
    least_groups = groups.amin(dim=2).topk(count, dim=1, largest=False, sorted=False).indices
    inside = groups.gather(1, least_groups[..., None].expand(-1, -1, _GROUP)).flatten(1)
    values, order = inside.topk(count, dim=1, largest=False)
    places = least_groups.gather(1, order // _GROUP) * _GROUP + order % _GROUP
    return values, places
