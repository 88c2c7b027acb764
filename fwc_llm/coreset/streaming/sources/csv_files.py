"""CSV files: how they are read, and what is said where they are written in another way."""

from typing import Any

from fwc_llm.errors import InputError

# What pandas.read_csv reads as missing.
_MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
_LOOKED_AT = 2**16  # bytes of a file
_ENCODING = "UTF-8 (is it of an older encoding, such as latin-1?): write it as UTF-8, or as Parquet"


def csv_format() -> Any:
    """CSV whose missing values are those that pandas sees, and whose texts may have several lines."""
    import pyarrow.csv as csv
    import pyarrow.dataset as ds

    missing = csv.ConvertOptions(null_values=_MISSING, strings_can_be_null=True)
    return ds.CsvFileFormat(csv.ParseOptions(newlines_in_values=True), convert_options=missing)


def check_types(schema: Any, name: str) -> None:
    """Refuse text that is no UTF-8 in the part of a file that tells types."""
    import pyarrow as pa

    for column in schema:
        if pa.types.is_binary(column.type):
            raise InputError(f"column {column.name!r} of {name} holds text that is no {_ENCODING}")


def check_csv(path: str) -> None:
    """Refuse, by its beginning, a file that is not of UTF-8 text and commas."""
    try:
        with open(path, "rb") as file:
            content = file.read(_LOOKED_AT)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if not content.strip():
        raise InputError(f"{path} is empty, and has no header line: leave it out")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path} is UTF-16 text: write it as UTF-8, or as Parquet")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data" or error.end < len(content):
            line = content[: error.start].count(b"\n") + 1
            raise InputError(f"{path} holds in line {line} text that is no {_ENCODING}") from None
        text = content[: error.start].decode("utf-8-sig")
    header = text.splitlines()[0] if text.strip() else ""
    other = max(";\t|", key=header.count)
    if "," not in header and other in header:
        raise InputError(
            f"{path} separates its columns by {other!r}: write it with commas (and decimal points) or as "
            "Parquet, or pass pyarrow.dataset.dataset(path, format=pyarrow.dataset.CsvFileFormat("
            f"pyarrow.csv.ParseOptions(delimiter={other!r})))"
        )
