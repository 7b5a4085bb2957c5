"""A cell of a CSV file."""

from __future__ import annotations

import csv
from decimal import Decimal, InvalidOperation

from gate.domain.checks import CsvCell
from gate.domain.judgement import CheckStatus
from gate.judging.ground_truth.facts import Answer, Facts, Place
from gate.judging.ground_truth.literal import quoted
from gate.judging.ground_truth.values import NotCheckableError, clip, computed


def evaluate(parameters: CsvCell, facts: Facts) -> Answer:
    """Read as RFC 4180 has it. A missing file or column, and a row that is not one, are ``not_run``; so is a broken file.

    Numbers are compared as decimals, so ``0.1`` and ``0.10`` are one; ``1,000`` and ``12 EUR`` are no numbers.
    """
    day = facts.record.run_date
    path = computed(parameters.path, day)
    wanted = computed(parameters.expected, day)
    within = f" ± {parameters.tolerance:g}" if parameters.tolerance else ""
    where = (
        f"row {parameters.row}"
        if parameters.row
        else clip("the row where " + ", ".join(f"{name} = {text}" for name, text in parameters.where.items()))
    )
    expected = f"{clip(str(wanted))}{within} in {clip(str(parameters.column))} of {where} of {clip(path)}"
    place = facts.file_text(path)
    key = ("csv", path, parameters.delimiter, str(parameters.header))
    names, rows = facts.remembered(key, lambda: _table(place, parameters))
    index = _column(parameters.column, names, place)
    line, row = _row(parameters, names, rows, place, day)
    if index >= len(row):
        raise NotCheckableError(f"line {line} of {place.name} has {len(row)} cells")
    cell = row[index]
    right = _is(cell.strip(), wanted, parameters.tolerance)
    status = CheckStatus.PASSED if right else CheckStatus.FAILED
    return Answer(status, expected, f"{quoted(cell)} in line {line} of {place.name}", place.block)


def _table(place: Place, parameters: CsvCell) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Names of the columns, and the rows with the line that each ends on. Empty lines are no rows."""
    reader = csv.reader(place.text.split("\n"), delimiter=parameters.delimiter, strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise NotCheckableError(f"{place.name} is no CSV: {error} in line {reader.line_num}") from None
    if not parameters.header:
        return [], rows
    if not rows:
        raise NotCheckableError(f"{place.name} has no header line")
    return [name.strip() for name in rows[0][1]], rows[1:]


def _column(column: str | int, names: list[str], place: Place) -> int:
    if isinstance(column, int):
        return column - 1
    if names.count(column) != 1:
        known = clip(", ".join(names), 200)
        raise NotCheckableError(f"{place.name} has {names.count(column)} columns {quoted(column)}; there are: {known}")
    return names.index(column)


def _row(
    parameters: CsvCell, names: list[str], rows: list[tuple[int, list[str]]], place: Place, day: str
) -> tuple[int, list[str]]:
    if parameters.row is not None:
        if parameters.row > len(rows):
            raise NotCheckableError(f"{place.name} has {len(rows)} data rows")
        return rows[parameters.row - 1]
    wanted = {_column(name, names, place): computed(text, day) for name, text in parameters.where.items()}
    found = [
        (line, row)
        for line, row in rows
        if all(index < len(row) and row[index].strip() == text.strip() for index, text in wanted.items())
    ]
    if len(found) != 1:
        raise NotCheckableError(f"{len(found)} rows of {place.name} are so; exactly one was expected")
    return found[0]


def _is(cell: str, wanted: str | float, tolerance: float) -> bool:
    if isinstance(wanted, str):
        return cell == wanted.strip()
    try:
        number = Decimal(cell)
    except InvalidOperation:
        return False
    # Decimals of the written digits: 0.3 is three tenths here, not the nearest binary number.
    return number.is_finite() and abs(number - Decimal(repr(wanted))) <= Decimal(repr(tolerance))
