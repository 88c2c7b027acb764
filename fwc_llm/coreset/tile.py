"""Feature costs of a block of rows to a tile of representatives, in LLVM's language, and of one row to one.

The sums of `ROWS × WIDTH` pairs stay in vector registers while the columns pass by; a plain numba loop
stores and reloads them at every column and takes twice as long (docs/decisions/0001). LLVM splits the 16-lane
vectors where the machine's are narrower. All arrays are float32; the first `n_numeric` columns are numbers, a
mismatch in any other, column k, costs `unit[k - n_numeric]`, a weight.
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fwc_llm.coreset.compiled import part
from fwc_llm.coreset.problem.ground_cost import FeatureCost

ROWS = 64  # rows of a block
WIDTH = 4  # representatives of a tile
LANES = 16

_F32, _I64 = ir.FloatType(), ir.IntType(64)
_VECTOR = ir.VectorType(_F32, LANES)
_VECTORS = ROWS // LANES


def in_groups(values: np.ndarray, size: int) -> np.ndarray:
    """(ceil(q / size), p, size) of the points (q, p); the last group is filled up with the last point."""
    count = -(-len(values) // size)
    places = np.minimum(np.arange(count * size), len(values) - 1).reshape(count, size)
    return np.ascontiguousarray(values[places].transpose(0, 2, 1))


def _make_tile_costs(squared: bool) -> Any:
    @intrinsic
    def tile_costs(typing: Any, block: Any, tiles: Any, t: Any, unit: Any, out: Any) -> Any:
        """`block` (p, ROWS), `tiles` (T, p, WIDTH), `unit` (c,), `out` (WIDTH, ROWS): float32 in C order."""
        signature = types.void(block, tiles, types.intp, unit, out)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            arrays = [
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args, arguments, strict=True)
                if isinstance(kind, types.Array)
            ]
            p = cgutils.unpack_tuple(builder, arrays[0].shape)[0]  # type: ignore[no-untyped-call]
            first = builder.mul(arguments[2], builder.mul(p, _I64(WIDTH)))
            tile = builder.gep(arrays[1].data, [first])
            codes = cgutils.unpack_tuple(builder, arrays[2].shape)[0]  # type: ignore[no-untyped-call]
            numeric = builder.sub(p, codes)
            step = _squared if squared else _absolute
            sums = [_VECTOR([0.0] * LANES)] * (WIDTH * _VECTORS)
            sums = _accumulate(builder, arrays[0].data, tile, _I64(0), numeric, sums, step)
            sums = _accumulate(builder, arrays[0].data, tile, numeric, p, sums, _mismatch, arrays[2].data)
            for i, total in enumerate(sums):
                place = builder.gep(arrays[3].data, [_I64(i * LANES)])
                builder.store(total, builder.bitcast(place, _VECTOR.as_pointer())).align = 4
            return context.get_dummy_value()

        return signature, generate

    return tile_costs


def _accumulate(
    builder: Any, block: Any, tile: Any, low: Any, high: Any, sums: Any, step: Any, unit: Any = None
) -> Any:
    """Adds `step(x, c)` of the columns low … high − 1 to the sums, which are the loop's variables.

    Of codes, what the column's `unit` makes of it.
    """
    before = builder.block
    head, body, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    k = builder.phi(_I64)
    k.add_incoming(low, before)
    running = [builder.phi(_VECTOR) for _ in sums]
    for variable, start in zip(running, sums, strict=True):
        variable.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("<", k, high), body, after)
    builder.position_at_end(body)
    column = builder.gep(block, [builder.mul(k, _I64(ROWS))])
    rows = []
    for r in range(_VECTORS):
        place = builder.bitcast(builder.gep(column, [_I64(r * LANES)]), _VECTOR.as_pointer())
        rows.append(builder.load(place))
        rows[-1].align = 4
    values = builder.gep(tile, [builder.mul(k, _I64(WIDTH))])
    weight = []
    if unit is not None:
        weight = [_broadcast(builder, builder.load(builder.gep(unit, [builder.sub(k, low)])))]
    for j in range(WIDTH):
        value = _broadcast(builder, builder.load(builder.gep(values, [_I64(j)])))
        for r in range(_VECTORS):
            total = builder.fadd(running[j * _VECTORS + r], step(builder, rows[r], value, *weight))
            running[j * _VECTORS + r].add_incoming(total, body)
    k.add_incoming(builder.add(k, _I64(1)), body)
    builder.branch(head)
    builder.position_at_end(after)
    return running


def _broadcast(builder: Any, scalar: Any) -> Any:
    empty = ir.Constant(_VECTOR, ir.Undefined)
    scalars = builder.insert_element(empty, scalar, ir.IntType(32)(0))
    return builder.shuffle_vector(scalars, empty, ir.VectorType(ir.IntType(32), LANES)([0] * LANES))


def _absolute(builder: Any, x: Any, c: Any) -> Any:
    kind, name = ir.FunctionType(x.type, [x.type]), f"llvm.fabs.v{LANES}f32"
    absolute = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
    return builder.call(absolute, [builder.fsub(x, c)])


def _squared(builder: Any, x: Any, c: Any) -> Any:
    difference = builder.fsub(x, c)
    return builder.fmul(difference, difference)


def _mismatch(builder: Any, x: Any, c: Any, weight: Any) -> Any:
    return builder.select(builder.fcmp_unordered("!=", x, c), weight, _VECTOR([0.0] * LANES))


_l1_tile = _make_tile_costs(squared=False)
_sqeuclidean_tile = _make_tile_costs(squared=True)

_MATRIX, _TILES, _UNIT = types.float32[:, ::1], types.float32[:, :, ::1], types.float32[::1]
_COST: Any = types.NamedTuple((types.boolean, _UNIT), FeatureCost)  # type: ignore[no-untyped-call]


@part(signature=types.void(_MATRIX, _TILES, types.intp, _COST, _MATRIX), forceinline=True)
def tile_costs(block, tiles, t, cost, out):  # type: ignore[no-untyped-def]
    """Write the costs `out` (WIDTH, ROWS) of `block` (p, ROWS) to tile t of `tiles` (T, p, WIDTH)."""
    if cost.squared:
        _sqeuclidean_tile(block, tiles, t, cost.unit, out)
    else:
        _l1_tile(block, tiles, t, cost.unit, out)


def _pair_cost(x, i, points, j, cost):  # type: ignore[no-untyped-def]
    """Return the cost between `x[i]` and `points[j]`, rows of matrices."""
    total, n_numeric = x.dtype.type(0), x.shape[1] - len(cost.unit)
    for k in range(n_numeric):
        apart = x[i, k] - points[j, k]
        total += apart * apart if cost.squared else abs(apart)
    for k in range(n_numeric, x.shape[1]):
        total += cost.unit[k - n_numeric] if x[i, k] != points[j, k] else np.float32(0)
    return total


# In float32 in any order, so that it is vectorised.
_OF_PAIR = types.float32(_MATRIX, types.intp, _MATRIX, types.intp, _COST)
pair_cost = part(_pair_cost, signature=_OF_PAIR, forceinline=True, fastmath={"reassoc"})
exact_cost = part(_pair_cost)
