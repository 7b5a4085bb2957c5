from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gate.domain.base import Severity
from gate.domain.checks import Check
from gate.domain.skill import SkillFile
from gate.domain.suite import Case, CaseType, Expectation, FixtureFile
from gate.intake.skill import parse_skill
from gate.intake.suite import read_suite
from gate.intake.suite.building import finished
from gate.intake.suite.writing import suite_text
from tests.unit.planning.test_contract import TEXT

TEXTS = (
    st.text(
        st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029\ufeff\x85"),
        min_size=1,
        max_size=60,
    )
    .map(str.strip)
    .filter(bool)
)
LINES = st.lists(TEXTS, min_size=1, max_size=3).map("\n".join)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    keyword = draw(TEXTS)
    check = Check.model_validate(
        {
            "id": "c1",
            "parameters": {"kind": "response_contains", "keyword": keyword},
            "severity": draw(st.sampled_from(list(Severity))),
            "rule_ref": draw(TEXTS),
        }
    )
    expectation = Expectation(id="e1", text=draw(TEXTS), severity=draw(st.sampled_from(list(Severity))))
    return finished(
        Case(
            eval_id="case-1",
            name=draw(TEXTS),
            prompt=draw(LINES),
            type=draw(st.sampled_from([CaseType.HAPPY_PATH, CaseType.EDGE_CASE])),
            files=(FixtureFile(path="data/in.csv", data=draw(LINES).encode()),),
            checks=(check,),
            expectations=(expectation,),
        )
    )


@given(cases(), st.booleans())
def test_what_is_written_reads_back_as_the_same_cases(case: Case, generated: bool) -> None:
    text = suite_text([case], generated=generated, comments=("A comment", "", "another"))
    files = tuple(
        SkillFile(path=path, mode="100644", sha256="0" * 64, size_bytes=len(data), data=data)
        for path, data in (("SKILL.md", TEXT.encode()), ("evals/skill-gate.yaml", text.encode()))
    )
    skill, _ = parse_skill("skills/release-notes", files)
    assert skill is not None
    suite, findings = read_suite(skill)
    assert not any(item.blocks for item in findings), [item.message for item in findings]
    assert suite is not None
    assert suite.generated is generated
    (again,) = suite.cases
    assert again.digest == case.digest
