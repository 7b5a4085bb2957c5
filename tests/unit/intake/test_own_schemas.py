from __future__ import annotations

import json

import jsonschema
import pytest

from gate.domain.base import pretty_json
from gate.intake.policy import parse_policy
from gate.intake.schema import FILE, policy_schema
from gate.intake.yaml_text import parse_yaml, plain
from gate.settings import Policy


def mistakes(text: str) -> list[str]:
    root = parse_yaml(text).root
    assert root is not None
    return [error.message for error in jsonschema.Draft202012Validator(policy_schema()).iter_errors(plain(root))]


def test_the_published_schema_of_the_policy_is_current() -> None:
    assert FILE.read_bytes() == pretty_json(policy_schema()), "run: python -m gate.intake.schema"
    jsonschema.Draft202012Validator.check_schema(json.loads(FILE.read_text("utf-8")))


def test_it_knows_every_key_of_a_policy() -> None:
    assert set(policy_schema()["properties"]) == set(Policy.model_fields)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("ignore: [legacy]\nmode: full\nthresholds: {threshold: 0.9}\n", True),
        ("waivers:\n  - {skill: a, rule: b, owner: me, expires: '2027-01-01'}\n", True),
        ("ignroe: [legacy]\n", False),
        ("mode: fastest\n", False),
        ("thresholds: {threshold: 2}\n", False),
        ("waivers: [{skill: a}]\n", False),
    ],
)
def test_schema_and_reader_agree_on_what_a_policy_is(text: str, fits: bool) -> None:
    assert (mistakes(text) == []) is fits
    assert (parse_policy(text.encode())[1] == ()) is fits
