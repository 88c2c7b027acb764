"""The inverse of a basis in compiled code: made, and brought up to date where a pivot changes a column."""

from fwc_llm.coreset.compiling.kernel import part

_UPDATES = 40  # of the inverse, until it is made anew
_FEW = 24  # cells up to which it always is
_THIN = 1e-6  # a pivot of an update that is smaller than this costs too many digits


@part
def follow(basis, fresh, inverse, room, rest, updates):  # type: ignore[no-untyped-def]
    """Bring the inverse from `basis` to `fresh`; returns the number of updates since it was made, or -1."""
    cells = len(basis)
    make = updates < 0
    for k in range(cells):
        same = True
        for g in range(cells):
            same &= basis[g, k] == fresh[g, k]
        if same:
            continue
        for g in range(cells):
            basis[g, k] = fresh[g, k]
        if make:
            continue
        for g in range(cells):
            value = 0.0
            for h in range(cells):
                value += inverse[g, h] * fresh[h, k]
            rest[g] = value
        updates += 1
        if abs(rest[k]) < _THIN or updates > _UPDATES or cells <= _FEW:
            make = True
            continue
        for h in range(cells):
            inverse[k, h] /= rest[k]
        for g in range(cells):
            if g != k and rest[g] != 0.0:
                for h in range(cells):
                    inverse[g, h] -= rest[g] * inverse[k, h]
    return invert(basis, inverse, room) if make else updates


@part
def invert(basis, inverse, room):  # type: ignore[no-untyped-def]
    """Invert by elimination with row exchanges; returns 0, or -1 if the matrix is singular."""
    cells = len(basis)
    for g in range(cells):
        for k in range(cells):
            room[g, k] = basis[g, k]
            room[g, cells + k] = 1.0 if g == k else 0.0
    for k in range(cells):
        best = k
        for g in range(k + 1, cells):
            if abs(room[g, k]) > abs(room[best, k]):
                best = g
        if not abs(room[best, k]) > 0.0:
            return -1
        if best != k:
            for h in range(2 * cells):
                room[k, h], room[best, h] = room[best, h], room[k, h]
        whole = room[k, k]
        for h in range(k, 2 * cells):
            room[k, h] /= whole
        for g in range(cells):
            factor = room[g, k]
            if g != k and factor != 0.0:
                for h in range(k, 2 * cells):
                    room[g, h] -= factor * room[k, h]
    for g in range(cells):
        for k in range(cells):
            inverse[g, k] = room[g, cells + k]
    return 0


@part
def times(matrix, vector, out):  # type: ignore[no-untyped-def]
    """Write the product of a matrix and a vector to `out`."""
    for g in range(len(out)):
        value = 0.0
        for k in range(len(vector)):
            value += matrix[g, k] * vector[k]
        out[g] = value
