"""Tables with types of their own: Parquet files and Excel workbooks, by the extra `tables`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import datetime, time
from io import BytesIO
from pathlib import Path
from typing import Any

from harken.data.io.files import ending, open_bytes
from harken.errors import UserError, require_extra

ENDINGS = (".parquet", ".xlsx")
BATCH_ROWS = 4096


def parquet_rows(path: str | Path) -> tuple[list[str], Iterator[list[Any]]]:
    """The names of the columns of a Parquet file and its rows, which are read one batch after another.

    Raises:
        UserError: pyarrow is not installed, or the file is no Parquet file.
    """
    require_extra("pyarrow", "tables", "a Parquet file")
    import pyarrow
    from pyarrow import parquet

    stream = open_bytes(path)
    source = stream if Path(path).suffix == ".parquet" else BytesIO(stream.read())  # it is read from its end
    try:
        file = parquet.ParquetFile(source)
    except (pyarrow.ArrowException, OSError) as error:
        stream.close()
        raise UserError(f"{path} is no Parquet file ({str(error).partition(chr(10))[0]}); write it again") from None

    def rows() -> Iterator[list[Any]]:
        with stream:
            for batch in file.iter_batches(BATCH_ROWS):
                yield from map(list, zip(*(column.to_pylist() for column in batch.columns), strict=True))

    return list(file.schema_arrow.names), rows()


def excel_rows(path: str | Path) -> Iterator[list[Any]]:
    """The rows of the first sheet of a workbook that has any; an empty cell is "", dates are written as ISO 8601.

    Raises:
        UserError: openpyxl is not installed, or the file is no workbook.
    """
    require_extra("openpyxl", "tables", "an Excel file")
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    with open_bytes(path) as stream:
        content = BytesIO(stream.read())
    try:
        book = openpyxl.load_workbook(content, read_only=True, data_only=True)
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise UserError(f"{path} is no Excel workbook ({error}); save it as .xlsx, or as CSV") from None
    for sheet in book.worksheets:
        rows = ([_cell(value) for value in row] for row in sheet.iter_rows(values_only=True))
        rows = (row for row in rows if any(cell != "" for cell in row))
        first = next(rows, None)
        if first is not None:
            yield first
            yield from rows
            return


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    return value.isoformat(" ") if isinstance(value, datetime) else value


def is_workbook(path: str | Path) -> bool:
    """Whether the name says Parquet or Excel.

    Raises:
        UserError: a format of spreadsheets that is not read.
    """
    kind = ending(path)
    if kind in (".xls", ".xlsb", ".ods"):
        raise UserError(f"{path} is a spreadsheet that harken does not read; save it as .xlsx or as CSV")
    return kind in ENDINGS
