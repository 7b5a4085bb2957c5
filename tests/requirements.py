"""Prints which tests show which requirement, and what no test shows yet: `python tests/requirements.py`.

A test names what it shows with `@pytest.mark.requirements("R10", "R37")`, on itself, on its class, on a parameter, or for a whole
file with `pytestmark`. The files are parsed, not imported: that takes no dependencies and well under a second.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent

TITLES = r"""
R1 independence: the executor never grades its own output; grader is a separate process and context
R2 independence: a PASS with empty evidence is invalid
R3 independence: generic evidence ("judging from the whole output") is invalid
R4 independence: detect cases where with and without are both 100% (non-discriminating) and say so
R5 independence: verifier must not share context with worker
R6 layers: Layer 0 detects type in {mcp_based, code_execution, text_generation}
R7 layers: Layer 0 chooses the matching execution mode and dispatches to Layer 1
R8 layers: Layer 1 truly executes and records transcript + response + metrics
R9 layers: Layer 2a reads values straight from the transcript: equality or regex
R10 layers: Layer 2a uses no LLM at all
R11 layers: Layer 2b is an independent LLM reading transcript + response for verbatim evidence
R12 layers: Layer 3 comparator does not know which side has the skill; pure quality
R13 layers: Layer 3 analyzer unblinds and locates the root cause
R14 layer 0: each type's mode must yield a verifiable transcript
R15 layer 1: no transcript => no later layer may report a result
R16 isolation: without_skill must not profit from with_skill files (uploaded URLs)
R17 isolation: layout eval-N/{with_skill,without_skill}/{workspace,outputs}
R18 isolation: without_skill reads only its own workspace
R19 isolation: without_skill reads nothing under with_skill
R20 isolation: a without_skill failure is recorded as a real failure
R21 isolation: no fallback to with_skill intermediates
R22 isolation: the without_skill launch prompt states the ban explicitly
R23 isolation: isolation is enforced by mounts/users, and attempts are detected and void the run
R24 transcript: two separate blocks; mixing raw returns and notes is rejected
R25 transcript: heading `## [tool_calls] Step N: ...` with Tool, Args, Return, Status
R26 transcript: tool_calls copied byte for byte, no comment
R27 transcript: heading `## [agent_notes] Step N: ...` for interpretation only
R28 transcript: evidence order 1 tool_calls, 2 response.md/outputs, 3 agent_notes (auxiliary)
R29 transcript: agent_notes alone without tool_calls => forced FAIL
R30 layer 2a: most trusted layer; pure text matching
R31 layer 2a: assertion kind call count
R32 layer 2a: assertion kind fixed parameter value (docStatus == "10")
R33 layer 2a: assertion kind link format / no literal `{fdId}` (regex)
R34 layer 2a: assertion kind computed field value (current month)
R35 layer 2a: subjective format/friendliness assertions route to 2b
R36 layer 2a: semantic plausibility assertions route to 2b
R37 layer 2b: quoting is mandatory; no source text => FAIL
R38 layer 2b: three standards, one per type
R39 layer 2b: read skill_type, choose the standard
R40 layer 2b: read transcript.md or response.md
R41 layer 2b: per assertion find, decide PASS/FAIL, quote exact words
R42 layer 2b: extract implied claims and verify each (hallucination check)
R43 layer 2b: criticise assertions in eval_feedback
R44 layer 2b: claim record has type (factual, ...), true/false, and the actual value found
R45 layer 2b: grader and executor are adversarial, not cooperative
R46 layer 3: after happy-path and E2E cases Layer 3 must run; cannot be skipped
R47 layer 3: six dimensions 1-5: correctness, completeness, accuracy; organization, formatting, usability
R48 layer 3: overall = (content mean + structure mean)/2*2
R49 layer 3: analyzer runs only after the comparator has scored
R50 layer 3: analyzer names win/loss cause and actionable suggestions
R51 quick: at least 2 runs, enforced
R52 quick: take the mean, never the best
R53 report: report the three core problems: self-grading bias, randomness, negative gain
R54 report: Layer 0-1 execution base, 2a/2b evaluation loop, 3 observability: keep outputs separable
R55 trust: trust is layered; no single mechanism decides
R56 trust: validate transcript format before any layer; bad format voids the result
R57 trust: 2a/2b border follows the nature of the question; one LLM does not do both
R58 trust: grader sees tool facts before notes
R59 trust: the notes rule is hard, not a suggestion (code enforced after the LLM)
R60 trust: score (comparator) + attribution (analyzer) are two layers; both kept
R61 trust: sample standard deviation; about 22% larger at n=3
R62 trust: no release decision from one run
R63 practice: executor/recorder infrastructure comes first
R64 practice: exact fields to rules, subjective quality to the independent grader
R65 practice: context isolation is a precondition of validity, not an option
R66 practice: grader prompt states the evidence order
R67 practice: keep the analyzer; a bare score has no action value
R68 comparison: knowing the source biases the reviewer; comparison is two steps (blind, then unblind)
R69 comparison: A/B are blind labels, distinct from conditions A without, B curated, C self-generated
R70 comparison: support the three-condition comparison as an option
R71 comparison: pass rate alone does not show value; baseline passing => value zero
R72 comparator: input output_a_path
R73 comparator: input output_b_path
R74 comparator: input eval_prompt
R75 comparator: input expectations, may be empty
R76 comparator: comparator is never told which is with_skill
R77 comparator: assignment is random; with_skill is sometimes A, sometimes B
R78 rubric: content correctness/completeness/accuracy each 1-5
R79 rubric: structure organization/formatting/usability each 1-5
R80 rubric: overall on a 10-point scale by the formula of R48
R81 rubric: dimensions adjusted per skill type
R82 verdict: A higher => "A"
R83 verdict: B higher => "B"
R84 verdict: difference < 0.5 => "TIE"
R85 verdict: be decisive; TIE rare; TIE reported as "zero gain on this case"
R86 text_generation: check required H2 structure
R87 text_generation: check length limit
R88 text_generation: check forbidden-content rules
R89 text_generation: no difference in rule adherence => TIE is legitimate
R90 analyzer input: inputs winner and winner_is_with_skill
R91 analyzer input: input evaluated_skill_path
R92 analyzer input: inputs with_skill_transcript_path, without_skill_transcript_path
R93 analyzer input: input comparison_result_path
R94 unblinding: positive gain; which instructions helped; suggestions refine
R95 unblinding: warning; which rules harm; suggestions top priority (remove)
R96 analyzer step 1: read the blind verdict
R97 analyzer step 2: read SKILL.md
R98 analyzer step 3: read both transcripts, compare patterns
R99 analyzer step 4: why the winner won
R100 analyzer step 5: why the loser lost
R101 analyzer step 6: prioritised, actionable suggestions
R102 suggestion: field priority in {high, medium, low}
R103 suggestion: field category in {instructions, tools, examples, error_handling, structure, references}
R104 suggestion: fields suggestion and expected_impact
R105 instruction following: instruction_following.{winner,loser}.{score 1-10, issues[]}
R106 instruction following: low with_skill score (e.g. 5) => "SKILL.md unclear: read but not followed"
R107 pipeline: comparator/analyzer only in standard/full
R108 pipeline: smoke and quick end after grader-report
R109 pipeline: standard = ... executor-without, comparator, grader-report, gate, publish
R110 pipeline: full = standard with analyzer after comparator
R111 quick: no comparison, because it doubles time and cost
R112 baseline: finer baseline rules apply; not every run compares
R113 data flow: executor output eval-N/run-R/with_skill/outputs/{transcript.md,response.md}
R114 data flow: executor output eval-N/run-R/without_skill/outputs/{transcript.md,response.md}
R115 data flow: comparator takes one randomly chosen run, both sides of it
R116 data flow: then random A/B labels
R117 data flow: writes eval-N/comparison.json
R118 data flow: analyzer reads comparison.json + unblinding + SKILL.md + both transcripts
R119 data flow: writes eval-N/analysis.json
R120 analysis: comparison.json has winner, reasoning, rubric.{A,B}.overall_score
R121 analysis: analysis.json has winner_strengths[], loser_weaknesses[], improvement_suggestions[]
R122 analysis: strengths/weaknesses cite the concrete SKILL.md rule or file
R123 analysis: comparator reasoning names concrete fields and defects
R124 quadrants: high pass + win = release with confidence
R125 quadrants: high pass + loss/tie = possibly redundant rules
R126 quadrants: low pass + win = direction right, assertions too strict
R127 quadrants: low pass + loss = skill must be fixed
R128 quadrants: name the two thresholds; low pass + tie is classed with loss
R129 two steps: comparator and analyzer are physically separate agents
R130 two steps: comparison.json is separate, auditable, fixed before unblinding
R131 two steps: comparator preferring the baseline is itself reported as "no gain"
R132 two steps: analyzer depends on comparator, serial
R133 tie: analyzer still runs; asks not-covered or model-already-capable
R134 seed: seed from eval_id + run_id by hash
R135 seed: same assignment across runs of an eval
R136 seed: random across evals
R137 cost: about 3K tokens per eval comparator
R138 cost: about 5K tokens per eval analyzer
R139 cost: 33 evals about 264K; print an estimate, record actual use
R140 evidence: raw transcript is the only evidence source
R141 evidence: hard rules verifiable without LLM
R142 evidence: report traceable back to evidence
R143 evidence: version changes: regressions detected
R144 evidence: agents/comparator.md, agents/analyzer.md and the contract are the reference
R145 appeal: the assessed side has a right of appeal before scores stand
R146 appeal: appeal may change single dimensions and leave others (efficiency .5->.6, tool_accuracy kept)
R147 two reviews: two adversarial layers: before and after execution
R148 two reviews: pre-review: generator on _sub_client, evaluator on _review_client
R149 two reviews: post-evaluation: evaluator on _eval_client, defender on _sub_client
R150 two reviews: final report = 6 weighted dimensions + requirement alignment + discussion metadata
R151 two reviews: separate clients, no context crosstalk
R152 two reviews: execution follows the reviewed plan (search, build, verify)
R153 contract: document field requirement_summary
R154 contract: key_deliverables[]
R155 contract: success_criteria[] verifiable
R156 contract: technical_approach
R157 contract: risk_areas[]
R158 contract: plan[] with tags [SEARCH], [CREATE], [VERIFY]
R159 contract review: evaluator checks completeness and feasibility
R160 contract review: APPROVAL_THRESHOLD 0.8, pass when score >= 0.8
R161 contract review: below 0.8 => feedback, generator revises, re-review
R162 contract review: MAX_REVIEW_ROUNDS 3
R163 contract review: after round 3 without agreement run the generator's revised plan (forced)
R164 contract review: decide by `score` only; ignore `approved`
R165 contract review: never trust two related LLM fields to agree
R166 contract review: the document is execution baseline and evaluation reference
R167 discussion round 0: really execute generated files before scoring
R168 discussion round 0: read file content, at most 3000 characters per file
R169 discussion round 0: initial report with the six keys
R170 discussion: at most 20 discussion rounds
R171 discussion: defender sees full execution context + current report + per-dimension scores
R172 discussion: reasonable => defender states consensus, end
R173 discussion: unreasonable => fact-based objection, at most 200 characters
R174 discussion: evaluator sees full context + previous scores + the defence
R175 discussion: good defence => adjust; bad => keep
R176 discussion: end on explicit acceptance
R177 discussion: end when abs(new - old) <= 0.05
R178 discussion: end after 20 rounds with the last score
R179 discussion prompts: evaluator is strict, outputs JSON + note, persuadable only by evidence
R180 discussion prompts: defender accepts fair criticism; no unreasonable defence
R181 discussion prompts: purpose is closing an information gap, not helping the executor
R182 real execution: real execution precedes discussion ("does it run")
R183 entry point priority 1: files the agent's output mentions
R184 entry point priority 2: main.py, app.py, index.py, server.py
R185 entry point priority 3: scan all Python files for the __main__ guard
R186 entry point priority 4: HTML not run; check DOCTYPE, html, head, body
R187 entry point priority 5: .sh run by bash, 30 s timeout
R188 real execution evidence: exit_code, 0 success, non-zero runtime error
R189 real execution evidence: stdout and stderr captured
R190 real execution evidence: timed_out at 30 s = hard proof of hang
R191 dimensions: task_completion weight 0.30
R192 dimensions: truthfulness 0.20
R193 dimensions: tool_accuracy 0.15
R194 dimensions: output_quality 0.15
R195 dimensions: error_recovery 0.10
R196 dimensions: efficiency 0.10 (tokens, duplicate calls, time)
R197 dimensions: each dimension has score 0-1 and evidence; trust judgement, not arithmetic
R198 guard 1: system prompt forbids anything but JSON
R199 guard 2: three-stage JSON extraction: pure, fenced block, bracket pairing
R200 guard 3: _validate_and_fix fills missing dimensions
R201 guard 4: _compute_overall recomputes in code, overriding the LLM
R202 guard 5: _fallback_report, rules only, when the LLM is unusable
R203 grades: grades in code A>=.9 B>=.8 C>=.7 D>=.6 F<.6
R204 discussion record: record rounds, agreement, score path (0.70->0.88), finding per plan review
R205 discussion record: record discussion rounds (typ. 2-3), defender acceptance (~70%), adjustment (+-.05)
R206 discussion record: the worked example reproduces 0.82 / B
R207 lessons: three-client isolation; shared client inflates by about +0.12 (test for it)
R208 lessons: cost 3x calls; evaluation about 15-20% of tokens: meter it
R209 lessons: numbers over booleans
R210 lessons: Python via subprocess, all executions under 30 s protection
R211 lessons: fallback beats perfection: never hang, never crash
R212 lessons: requirement_alignment computed after execution against the document
R213 lessons: simple, clear, low risk => single evaluation (1 call)
R214 lessons: complex, ambiguous, high risk => discussion (2-6 calls)
R215 lessons: is_simple_task() skips the evaluation of simple tasks (the skip is recorded, not a pass)
R216 lessons: important judgements must be discussed; budget goes there
R217 lessons: every loop has a safety net (3 rounds, 20 rounds, forced, rules)
R218 lessons: scores 0-1, threshold >= .8, computed in code
R219 gate: manifests verified before any model call
R220 gate: untrusted PR content is data, no secrets in the skill's container
R221 gate: evals, expected outputs and rubrics are not readable by the executor
R222 gate: both arms equal in model, tools, permissions, limits
R223 gate: proof that the skill was present in one arm and absent in the other
R224 gate: statuses pass/conditional/fail/blocked/error kept apart
R225 gate: infrastructure and judge faults retried and never counted as skill losses
R226 gate: every number re-derivable offline from stored files
"""


DIFFERENCES = """
K1 R134 R135: "run_id" would differ from run to run, and one case shall have one assignment: the session's id is taken, never the number of a run
K2 R77 R136: a plain hash can be predicted and gives a case one seat for ever: the assignment is keyed by the session, and both orders are asked; where they disagree it is a TIE
K3 R82 R84: "A higher" and "difference under 0.5" overlap: the TIE is tested first, in whole sums of the six criteria, whose steps are thirds, so that exactly 0.5 cannot occur
K4 R80 R120: the example prints 5.4 where its own parts give 5.33: totals are computed from unrounded parts
K5 R48 R80: "(content + structure) / 2 * 2" goes from 2 to 10 and not from 0: the formula stays, its range is said and checked
K6 R46 R107 R108: "cannot be skipped" and "only in standard and full" are both written: there it cannot be skipped; smoke and quick end at conditional for the lack of it
K7 R109 R110 R133: the analyzer is in both modes in one place and in full only in another: in full always, in standard where the skill did not win
K8 R76 R86 R88: whoever checks a skill's rules would have to read it, and is to be blind: the comparator gets a neutral list made of the case; names, paths and passages of the skill are scrubbed
K9 R85 R90 R105: a TIE has no winner and no loser to fill the fields with: the winner may be TIE, the boolean null, and instructions followed are named by arm as well
K10 R115: "one randomly chosen run" beside "run-1": a draw by the session's seed among run numbers that are complete on both sides; in full all of them
K11 R16 R19 R23: a leak is said to lower and to raise the gain: both happen, by different leaks; each that succeeds voids the pair, whichever way it worked
K12 R28 R29 R37: "notes without tool calls fail" would fail every skill that writes text: what was called or run needs tool calls, what was written may rest on the response; notes never suffice
K13 R52 R61: "22 % larger" holds for three runs, and quick has two: always the sample deviation; under two runs none
K14 R146 R206: .5 to .6 in efficiency gives .83 by the weights, the text says .84: code recomputes
K15 R203: "B+" is in no table of grades: A, B, C, D and F
K16 R177: "at most .05 apart" would end a discussion although one dimension moved by .1: both differences are recorded, with the round at which the rule would have ended it
K17 R182 R186: HTML is "executed" in one place and "not run" in another: its structure is checked
K18 R187 R190: a server does not end and is no hang: timed_out stays true, a program that opens a port is long_running and no crash; a case can ask it something
K19 R205: shares of five examples (60 % at once, 80 % after) are no targets: counted and shown, asked of nobody
K20 R148 R149 R207: "three clients" serve five roles: each role has an object and a history of its own
K21 R161: a lost "<": a score under .8 is returned to the generator
K22 R203 R218: S to F from 95 % and A to F from .9 share letters: they are named apart, release grade and discussion grade
K23 R17 R113 R114: with run-R and without, the workspace inside or beside: one tree is written (run-R/arm/{workspace,outputs}), the others are read
K24 R109 R224: a report that says PASS before the gate has spoken: the gate computes, every report renders what it decided
K25 R38 R112 R126: tables that the texts lost: filled in from what the texts around them say
K26 R34: "the current month" would give another verdict tomorrow: computed values use the session's recorded date
K27 R163 R178 R202: "execute all the same" and "the last score counts" would pass in silence: what was forced or filled in by rule is marked and counted, and is no pass of a judge
"""
"""Where the texts that the requirements come from contradict themselves or cannot be kept to the letter: the requirements it is
about, what is odd: what is done. The tests that show it are those of the requirements."""


class MarkerError(Exception):
    """A marker that cannot be counted, with its place."""


def titles() -> dict[str, str]:
    """Requirement number to title, in the order of numbers."""
    rows = (line.partition(" ") for line in TITLES.strip().splitlines())
    return {number: title for number, _, title in rows}


def differences() -> dict[str, tuple[tuple[str, ...], str]]:
    """K number to the requirements that it is about and what is done, in the order of numbers."""
    rows = (line.partition(": ") for line in DIFFERENCES.strip().splitlines())
    return {head.split()[0]: (tuple(head.split()[1:]), text) for head, _, text in rows}


def shown_by(root: Path) -> dict[str, list[str]]:
    """Requirement number to the tests under `root` that carry it, as pytest would name them.

    Raises:
        MarkerError: a marker names a requirement that does not exist, or not as a plain string.
    """
    known = titles()
    shown: dict[str, list[str]] = defaultdict(list)
    for path in sorted(root.rglob("test_*.py")):
        name = path.relative_to(root.parent).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        for test, argument in _marks(tree, name, ()):
            number = argument.value if isinstance(argument, ast.Constant) else None
            if not isinstance(number, str) or number not in known:
                raise MarkerError(
                    f"{name}:{argument.lineno}: no such requirement: {ast.unparse(argument)}; "
                    f'write one of "R1" to "R{len(known)}"'
                )
            if test not in shown[number]:
                shown[number].append(test)
    return dict(shown)


def _marks(
    node: ast.Module | ast.ClassDef, name: str, inherited: tuple[ast.expr, ...]
) -> Iterator[tuple[str, ast.expr]]:
    """Every test in `node` with each argument of the requirement markers that reach it."""
    for statement in node.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and _assigns_pytestmark(statement):
            inherited += tuple(_arguments(statement))
    for statement in node.body:
        if not isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        own = tuple(argument for decorator in statement.decorator_list for argument in _arguments(decorator))
        if isinstance(statement, ast.ClassDef):
            yield from _marks(statement, f"{name}::{statement.name}", inherited + own)
        elif statement.name.startswith("test"):
            for argument in inherited + own:
                yield f"{name}::{statement.name}", argument


def _assigns_pytestmark(statement: ast.Assign | ast.AnnAssign) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in targets)


def _arguments(tree: ast.AST) -> Iterator[ast.expr]:
    """The arguments of every call of a `requirements` marker in `tree`, at any depth: markers also stand inside `pytest.param`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "requirements":
            yield from node.args


def main() -> int:
    known = titles()
    try:
        shown = shown_by(ROOT)
    except MarkerError as error:
        print(error, file=sys.stderr)
        return 2
    for number in known:
        for position, test in enumerate(shown.get(number, [])):
            print(f"{number if position == 0 else '':<5} {test}")
    missing = {number: title for number, title in known.items() if number not in shown}
    if missing:
        print("\nNo test yet:")
        for number, title in missing.items():
            print(f"{number:<5} {title}")
    print("\nDeliberately different:")
    for number, (about, text) in differences().items():
        print(f"{number:<5} {', '.join(about)}: {text}")
    tests = {test for names in shown.values() for test in names}
    print(
        f"\n{len(known) - len(missing)} of {len(known)} requirements shown, by {len(tests)} tests; {len(missing)} missing"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
