"""Feature costs of a block of rows to a tile of representatives, and of one row to one, in LLVM's language.

The sums of `ROWS × WIDTH` pairs stay in vector registers while the columns pass by; a plain numba loop
stores and reloads them at every column and takes twice as long (docs/decisions/0001). LLVM splits the 16-lane
vectors where the machine's are narrower. No operation is reordered: results do not depend on the machine's
width. All arrays are float32; the first `n_numeric` columns are numbers, a mismatch in any other costs 1.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fwc_llm.coreset.compiled import part

ROWS = 64  # rows of a block
WIDTH = 4  # representatives of a tile
LANES = 16

_F32, _I64 = ir.FloatType(), ir.IntType(64)
_VECTOR = ir.VectorType(_F32, LANES)
_VECTORS = ROWS // LANES


def _make_tile_costs(squared: bool) -> Any:
    @intrinsic
    def tile_costs(typing: Any, block: Any, tiles: Any, t: Any, n_numeric: Any, out: Any) -> Any:
        """`block` (p, ROWS), `tiles` (T, p, WIDTH), `out` (WIDTH, ROWS): all float32 and C-contiguous."""
        signature = types.void(block, tiles, types.intp, types.intp, out)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            arrays = [
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args, arguments, strict=True)
                if isinstance(kind, types.Array)
            ]
            p = cgutils.unpack_tuple(builder, arrays[0].shape)[0]  # type: ignore[no-untyped-call]
            first = builder.mul(arguments[2], builder.mul(p, _I64(WIDTH)))
            tile = builder.gep(arrays[1].data, [first])
            step = _squared if squared else _absolute
            sums = [_VECTOR([0.0] * LANES)] * (WIDTH * _VECTORS)
            sums = _accumulate(builder, arrays[0].data, tile, _I64(0), arguments[3], sums, step)
            sums = _accumulate(builder, arrays[0].data, tile, arguments[3], p, sums, _mismatch)
            for i, total in enumerate(sums):
                place = builder.gep(arrays[2].data, [_I64(i * LANES)])
                builder.store(total, builder.bitcast(place, _VECTOR.as_pointer())).align = 4
            return context.get_dummy_value()

        return signature, generate

    return tile_costs


def _accumulate(builder: Any, block: Any, tile: Any, low: Any, high: Any, sums: Any, step: Any) -> Any:
    """Adds `step(x, c)` of the columns low … high − 1 to the sums, which are the loop's variables."""
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
    for j in range(WIDTH):
        value = _broadcast(builder, builder.load(builder.gep(values, [_I64(j)])))
        for r in range(_VECTORS):
            total = builder.fadd(running[j * _VECTORS + r], step(builder, rows[r], value))
            running[j * _VECTORS + r].add_incoming(total, body)
    k.add_incoming(builder.add(k, _I64(1)), body)
    builder.branch(head)
    builder.position_at_end(after)
    return running


def _broadcast(builder: Any, scalar: Any) -> Any:
    empty = ir.Constant(_VECTOR, ir.Undefined)
    one = builder.insert_element(empty, scalar, ir.IntType(32)(0))
    return builder.shuffle_vector(one, empty, ir.VectorType(ir.IntType(32), LANES)([0] * LANES))


def _absolute(builder: Any, x: Any, c: Any) -> Any:
    width = "f32" if x.type == _F32 else f"v{x.type.count}f32"
    kind = ir.FunctionType(x.type, [x.type])
    name = f"llvm.fabs.{width}"
    absolute = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
    return builder.call(absolute, [builder.fsub(x, c)])


def _squared(builder: Any, x: Any, c: Any) -> Any:
    difference = builder.fsub(x, c)
    return builder.fmul(difference, difference)


def _mismatch(builder: Any, x: Any, c: Any) -> Any:
    one, none = (x.type(v if x.type == _F32 else [v] * x.type.count) for v in (1.0, 0.0))
    return builder.select(builder.fcmp_unordered("!=", x, c), one, none)


_l1_tile = _make_tile_costs(squared=False)
_sqeuclidean_tile = _make_tile_costs(squared=True)


_SHORT = 8
_SHORT_VECTOR = ir.VectorType(_F32, _SHORT)


def _make_pair_cost(squared: bool) -> Any:
    @intrinsic
    def pair_cost(typing: Any, x: Any, i: Any, points: Any, j: Any, n_numeric: Any) -> Any:
        """The cost between `x[i]` and `points[j]`, rows of C-contiguous float32 matrices."""
        signature = types.float32(x, types.intp, points, types.intp, types.intp)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            rows = []
            for at in (0, 2):
                array = context.make_array(signature.args[at])(context, builder, arguments[at])
                p = cgutils.unpack_tuple(builder, array.shape)[1]  # type: ignore[no-untyped-call]
                rows.append(builder.gep(array.data, [builder.mul(arguments[at + 1], p)]))
            total = _sum_pairs(builder, rows, _I64(0), arguments[4], _squared if squared else _absolute)
            return builder.fadd(total, _sum_pairs(builder, rows, arguments[4], p, _mismatch))

        return signature, generate

    return pair_cost


def _sum_pairs(builder: Any, rows: Any, low: Any, high: Any, step: Any) -> Any:
    """Sums `step` over the columns low … high − 1: eight at once, then the rest one by one."""
    whole = builder.add(low, builder.and_(builder.sub(high, low), _I64(-_SHORT)))
    total, vector = _F32(0.0), _SHORT_VECTOR([0.0] * _SHORT)
    for kind, start, end, by, value in (
        (_SHORT_VECTOR, low, whole, _SHORT, vector),
        (_F32, whole, high, 1, total),
    ):
        before = builder.block
        head, body, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        k, running = builder.phi(_I64), builder.phi(kind)
        k.add_incoming(start, before)
        running.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", k, end), body, after)
        builder.position_at_end(body)
        loaded = []
        for row in rows:
            loaded.append(builder.load(builder.bitcast(builder.gep(row, [k]), kind.as_pointer())))
            loaded[-1].align = 4
        running.add_incoming(builder.fadd(running, step(builder, *loaded)), body)
        k.add_incoming(builder.add(k, _I64(by)), body)
        builder.branch(head)
        builder.position_at_end(after)
        if kind is _F32:
            total = builder.fadd(running, vector)
        else:
            vector = _sum_lanes(builder, running)
    return total


def _sum_lanes(builder: Any, vector: Any) -> Any:
    """The sum of the lanes of a short vector, pairwise."""
    values = [builder.extract_element(vector, ir.IntType(32)(lane)) for lane in range(_SHORT)]
    while len(values) > 1:
        values = [builder.fadd(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]


_l1_pair = _make_pair_cost(squared=False)
_sqeuclidean_pair = _make_pair_cost(squared=True)

_MATRIX, _TILES = types.float32[:, ::1], types.float32[:, :, ::1]
_OF_TILE = types.void(_MATRIX, _TILES, types.intp, types.intp, _MATRIX)
_OF_PAIR = types.float32(_MATRIX, types.intp, _MATRIX, types.intp, types.intp)


@part(signature=_OF_TILE, forceinline=True)
def l1_tile(block, tiles, t, n_numeric, out):  # type: ignore[no-untyped-def]
    """Write the L1 costs `out` (WIDTH, ROWS) of `block` (p, ROWS) to tile t of `tiles` (T, p, WIDTH)."""
    _l1_tile(block, tiles, t, n_numeric, out)


@part(signature=_OF_TILE, forceinline=True)
def sqeuclidean_tile(block, tiles, t, n_numeric, out):  # type: ignore[no-untyped-def]
    """Write the squared L2 costs, see `l1_tile`."""
    _sqeuclidean_tile(block, tiles, t, n_numeric, out)


@part(signature=_OF_PAIR, forceinline=True)
def l1_pair(x, i, points, j, n_numeric):  # type: ignore[no-untyped-def]
    """Return the L1 cost between `x[i]` and `points[j]`, rows of matrices."""
    return _l1_pair(x, i, points, j, n_numeric)


@part(signature=_OF_PAIR, forceinline=True)
def sqeuclidean_pair(x, i, points, j, n_numeric):  # type: ignore[no-untyped-def]
    """Return the squared L2 cost, see `l1_pair`."""
    return _sqeuclidean_pair(x, i, points, j, n_numeric)
