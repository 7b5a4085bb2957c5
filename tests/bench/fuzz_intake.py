"""Bytes that nobody meant, given to every reader of a skill: no exception, no hang, never a skill and a blocking finding at once.

``python -m tests.bench.fuzz_intake [--small]``: 10,000 generated SKILL.md (500), each with a suite, a policy and a manifest
made the same way. Beside it the same bytes through the reading that most tools have, which does raise.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence

import yaml

from gate.domain.base import sha256_hex
from gate.domain.skill import SkillFile
from gate.intake.body import check_body, facts_of
from gate.intake.manifests import check_manifests
from gate.intake.policy import parse_policy
from gate.intake.profiles import Profile, profile_findings
from gate.intake.skill import parse_skill, read_front
from gate.intake.suite import read_suite
from tests.bench._figures import figure, last_line, table

FULL, SMALL = 10_000, 500
HANG_S = 2.0
"""For one set of files, by the processor's clock."""

GOOD = b"---\nname: sums\ndescription: Adds numbers.\n---\n# Sums\n\nAdd them. [x](a.md) `b`\n"
SUITE = b"version: 1\ncases:\n  - id: a\n    prompt: p\n    checks: [{kind: response_contains, keyword: x}]\n    expectations: [y]\n"
EVALS = b'{"skill_name": "sums", "evals": [{"id": 1, "prompt": "p", "expected_output": "o", "expectations": ["e"], "files": ["a"]}]}'
POLICY = b"mode: full\nignore: [legacy]\nwaivers:\n  - {skill: a, rule: b, owner: me, expires: '2027-01-01'}\n"
MANIFEST = b'{"name": "p", "version": "1.0.0", "skills": ["./skills/sums"], "author": {"name": "a"}}'
PIECES = [
    b"---\n", b"---", b"name: a\n", b"description: d\n", b"x: ", b"- ", b"[", b"]", b"{", b"}", b": ", b"&a ", b"*a", b"<<: ", b"!!int ",
    b"!!python/name:os.system ", b"'", b'"', b"|\n", b"\t", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"2026-02-30", b"1:2:3", b"0o8",
    b"...", b"```\n", b"~~~", b"%YAML 1.1\n", b"? ", b"\r\n", b"\r", "\u2028".encode(), "\u202e".encode(), "é".encode(), b"9" * 300,
    b".nan", b"\\ud800", b"\xed\xa0\x80", b"allowed-tools: Bash(git:*, [x) Read\n", b"metadata:\n  a: [1, {b: c}]\n", b"](../../x)",
    b"](" * 40, b"[" * 90, b"> " * 60, b"*_" * 60, b"`" * 50, b"<!--", b"&a [*a]", b"\n\n", b"NaN", b"1e999", b'"id": ', b"null", b"true",
]  # fmt: skip


def mutated(rng: random.Random, seed: bytes) -> bytes:
    """A few edits of something good, or pieces alone."""
    data = bytearray(seed if rng.random() < 0.8 else b"")
    for _ in range(rng.choice([0, 1, 1, 2, 3, 6, 12])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            data[at:at] = rng.choice(PIECES)
        elif kind == 1:
            del data[at : at + rng.randrange(1, 12)]
        elif kind == 2 and data:
            data[min(at, len(data) - 1)] = rng.randrange(256)
        elif kind == 3:
            end = min(len(data), at + rng.randrange(1, 40))
            data[at:at] = data[at:end] * rng.randrange(1, 8)
        else:
            data[at:at] = rng.randbytes(rng.randrange(8))
    return bytes(data[:20_000])


def a_file(path: str, data: bytes) -> SkillFile:
    return SkillFile(path=path, mode="100644", sha256=sha256_hex(data), size_bytes=len(data), data=data)


def read_all(files: tuple[SkillFile, ...], policy: bytes, manifest: bytes) -> str:
    """Everything that reads; what came of it. Raises where a reader does, or where it contradicts itself."""
    front = read_front("skills/sums", files)
    skill, findings = parse_skill("skills/sums", files, front=front)
    if (skill is None) != any(item.blocks for item in findings):
        raise AssertionError("a skill and a finding that blocks, or neither")
    found = list(findings)
    for profile in Profile:
        found += profile_findings(profile, "skills/sums", files, front=front)
    if skill is not None:
        json.dumps(skill.to_json()).encode("utf-8")
        found += check_body(skill, facts_of(skill))
        suite, suite_findings = read_suite(skill)
        found += suite_findings
        if suite is not None:
            json.dumps(suite.to_json()).encode("utf-8")
    found += parse_policy(policy)[1]
    found += check_manifests({".claude-plugin/plugin.json"}, lambda _: manifest, "skills/sums")
    for item in found:
        json.dumps(item.to_json()).encode("utf-8")
    return "read" if skill is not None else "refused, with a reason"


def naive(data: bytes) -> None:
    """What many tools do with a SKILL.md."""
    values = yaml.safe_load(data.decode("utf-8").split("---")[1])
    json.dumps({"name": values["name"].strip(), "description": values["description"].strip(), "all": values})


def main(arguments: Sequence[str] = ()) -> int:
    """Measure and print."""
    count = SMALL if "--small" in arguments else FULL
    outcomes: Counter[str] = Counter()
    raised: Counter[str] = Counter()
    naive_raised = hangs = 0
    slowest = 0.0
    for number in range(count):
        rng = random.Random(f"fuzz {number}")
        data = mutated(rng, GOOD)
        suite = ("evals/skill-gate.yaml", SUITE) if rng.random() < 0.5 else ("evals/evals.json", EVALS)
        files = (a_file("SKILL.md", data), a_file(suite[0], mutated(rng, suite[1])))
        started = time.process_time()
        try:
            outcomes[read_all(files, mutated(rng, POLICY), mutated(rng, MANIFEST))] += 1
        except Exception as error:  # noqa: BLE001 - that is what is counted
            raised[f"{type(error).__name__} at {number}: {error}"[:200]] += 1
        seconds = time.process_time() - started
        slowest = max(slowest, seconds)
        hangs += seconds > HANG_S
        try:
            naive(data)
        except Exception:  # noqa: BLE001 - as above
            naive_raised += 1
    print(
        table(["outcome", "files"], [[name, total] for name, total in (*outcomes.most_common(), *raised.most_common())])
    )
    print(f"slowest set: {1000 * slowest:.0f} ms of one processor")
    bad = sum(raised.values()) + hangs
    print(
        last_line(
            [
                figure("fuzz_intake", bad, "exceptions and hangs (baseline: split, safe_load, json.dumps of the same SKILL.md)",
                       n=count, baseline=naive_raised, goal="0", ok=bad == 0)
            ]
        )
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
