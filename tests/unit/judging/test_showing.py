from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gate.domain.evidence import Block, Tier
from gate.judging.showing import cut_to, for_a_judge


def block(number: int, text: str, tier: Tier = Tier.OUTPUT) -> Block:
    return Block(id=f"B{number:03d}", tier=tier, kind="outputs", title="t", text=text)


def test_calls_come_before_outputs_and_notes_do_not_come() -> None:
    given_ = [block(1, "n", Tier.NOTES), block(2, "o"), block(3, "c", Tier.TOOL_CALLS), block(4, "p")]
    assert [item.id for item in for_a_judge(given_)] == ["B003", "B002", "B004"]


def test_the_longest_are_cut_first_and_say_how_much_is_missing() -> None:
    shown, cut = cut_to([block(1, "short"), block(2, "line\n" * 100), block(3, "line\n" * 400)], 605)
    assert cut == ("B002", "B003")
    assert shown[0].text == "short"
    assert shown[1].text == "line\n" * 60 + "[200 more characters of this block are not shown]"


@given(lengths=st.lists(st.integers(0, 300), max_size=8), budget=st.integers(0, 1_000))
def test_what_is_kept_is_within_the_budget_and_a_beginning(lengths: list[int], budget: int) -> None:
    blocks = [block(number, "ab\ncd"[number % 3] * length) for number, length in enumerate(lengths)]
    shown, cut = cut_to(blocks, budget)
    assert [item.id for item in shown] == [item.id for item in blocks]
    kept = 0
    for before, after in zip(blocks, shown, strict=True):
        text = after.text.rpartition("[")[0] if after.id in cut else after.text
        assert before.text.startswith(text.removesuffix("\n"))
        kept += min(len(text), len(before.text))
    assert kept <= budget + len(blocks)
    assert (not cut) is (sum(lengths) <= budget)
