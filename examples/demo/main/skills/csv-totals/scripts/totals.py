"""Add up one column of a CSV file by another: totals.py FILE GROUP_COLUMN AMOUNT_COLUMN. Prints JSON."""

import csv
import json
import sys
from decimal import Decimal


def main(path: str, group: str, amount: str) -> None:
    totals: dict[str, Decimal] = {}
    left_out = 0
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row[amount].strip():
                totals[row[group]] = totals.get(row[group], Decimal(0)) + Decimal(row[amount])
            else:
                left_out += 1
    result = {"totals": {name: f"{value:.2f}" for name, value in sorted(totals.items())}, "left_out": left_out}
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:4])
