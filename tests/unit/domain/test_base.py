from __future__ import annotations

import json

import pytest

from gate.domain.base import canonical_json, digest_of, pretty_json, rounded, six_digits


def test_a_number_that_a_check_expects_survives_a_bundle_file_exactly() -> None:
    for number in (1234567.89, 0.1 + 0.2, 1e300, 2**60, -0.0):
        assert json.loads(pretty_json({"expected": number}))["expected"] == number
        assert json.loads(canonical_json([number])) == [number]


def test_report_numbers_have_six_significant_digits() -> None:
    assert rounded({"rate": 2 / 3, "count": 1234567, "rows": [0.1 + 0.2], "word": "x", "none": None, "yes": True}) == {
        "rate": 0.666667,
        "count": 1234567,
        "rows": [0.3],
        "word": "x",
        "none": None,
        "yes": True,
    }


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_never_reaches_a_file(number: float) -> None:
    for make in (canonical_json, pretty_json, lambda value: six_digits(value[0])):
        with pytest.raises(ValueError, match=r"finite|JSON"):
            make([number])


def test_equal_values_have_equal_bytes_whatever_their_key_order() -> None:
    assert canonical_json({"b": 1, "a": [2, {"d": 3, "c": 4}]}) == b'{"a":[2,{"c":4,"d":3}],"b":1}'
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})


def test_a_lone_surrogate_is_written_as_an_escape() -> None:
    assert canonical_json("\ud800x") == b'"\\ud800x"'
