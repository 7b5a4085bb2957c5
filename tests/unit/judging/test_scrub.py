from __future__ import annotations

import pytest

from gate.domain.skill import Skill
from gate.judging.scrub import HIDDEN, Scrubber
from tests.builders_skill import a_file, a_skill

BODY = (
    "# Invoices\n\nAlways round the total of every invoice to two decimals before you print it.\n\n"
    "请在输出之前先把每一张发票的总金额四舍五入到小数点后两位然后再打印。\n"
)


def invoices() -> Skill:
    reference = a_file("references/tax.md", "The reduced rate applies to books and to all food that is sold cold.\n")
    return a_skill("skills/invoice-totals", body=BODY, files=(reference,))


@pytest.mark.parametrize(
    ("text", "rule", "left"),
    [
        ("I used invoice-totals.", "skill_name", f"I used {HIDDEN}."),
        ("INVOICE TOTALS said so", "skill_name", f"{HIDDEN} said so"),
        ("from invoice_totals", "skill_name", f"from {HIDDEN}"),
        ("see skills/invoice-totals/SKILL.md", "skill_path", f"see {HIDDEN}"),
        ("ran /skills/invoice-totals/scripts/sum.py now", "skill_path", f"ran {HIDDEN} now"),
        ("ls /skills", "skill_path", f"ls {HIDDEN}"),
        ("arm with_skill", "arm_words", f"arm {HIDDEN}"),
        ("done without the skill", "arm_words", f"done {HIDDEN}"),
        ("As SKILL.md says", "arm_words", f"As {HIDDEN} says"),
        ("I read the invoice skill first", "arm_words", f"I {HIDDEN} first"),
        ("按照技能的要求", "arm_words", f"{HIDDEN}的要求"),
        (
            "so: round the total of every invoice to two decimals, done",
            "skill_text",
            f"so: {HIDDEN}, done",
        ),
        ("先把每一张发票的总金额四舍五入到小数点后两位", "skill_text", HIDDEN),
        ("rate applies to books and to all food!", "skill_text", f"{HIDDEN}!"),
        ("in\u200bvoice-to\u2060tals", "skill_name", HIDDEN),
        (
            "\uff29\uff4e\uff56\uff4f\uff49\uff43\uff45\uff0d\uff34\uff4f\uff54\uff41\uff4c\uff53 x",
            "skill_name",
            f"{HIDDEN} x",
        ),
        ("invo\u00efce tota\u0301ls.", "skill_name", f"{HIDDEN}."),
        ("inv\u043eice\u2011t\u043etals", "skill_name", HIDDEN),
        ("**invoice**-`totals`", "skill_name", f"**{HIDDEN}`"),
        ("invoice%20totals and use_invoice_totals_2", "skill_name", f"{HIDDEN} and use_{HIDDEN}_2"),
        ("invoiceTotals()", "skill_name", f"{HIDDEN}()"),
        ("see \\skills\\invoice-totals\\SKILL.md", "skill_path", f"see {HIDDEN}"),
        ("_with the skill_ it works", "arm_words", f"{HIDDEN} it works"),
        ("made **with** the **skill**", "arm_words", f"made {HIDDEN}"),
        ("the **`invoice-totals`** way", "skill_name", f"the {HIDDEN} way"),
        ("as the skill says", "arm_words", f"{HIDDEN} says"),
        ("ROUND the t\u00f6tal of every\u200b invoice\nto two decimals", "skill_text", f"{HIDDEN}\n"),
    ],
)
def test_what_tells_the_arm_is_hidden_and_named_by_rule(text: str, rule: str, left: str) -> None:
    scrubbed = Scrubber(invoices()).scrub(text)
    assert scrubbed.text == left
    assert scrubbed.leaks[rule] >= 1


@pytest.mark.parametrize(
    "text",
    [
        "The total of every invoice is 12.50.",
        "Communication skills matter in invoices.",
        "Totals by invoice number",
        "path/to/skillset and upskilling",
        "发票的总金额是十二元",
        "She negotiates with a rare skill and writes with skill and care.",
        "Condition A is met, and so is the control run.",
        "\u00c7a alors, l\u2019\u00e9t\u00e9 s\u2019ach\u00e8ve \u2013 na\u00efvet\u00e9 comprise.",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert Scrubber(invoices()).scrub(text) == (text, {})


def test_a_passage_that_the_task_gave_to_both_arms_tells_nothing() -> None:
    passage = "round the total of every invoice to two decimals"
    assert Scrubber(invoices(), shared=[f"Please {passage} now"]).scrub(passage).text == passage


def test_a_name_that_is_a_plain_word_of_the_task_stays() -> None:
    scrubber = Scrubber(a_skill("skills/report"), shared=["Write a report."])
    assert scrubber.scrub("My report").text == "My report"
    assert Scrubber(a_skill("skills/report")).scrub("My report").text == f"My {HIDDEN}"


def test_a_hidden_passage_over_lines_keeps_the_line_numbers() -> None:
    text = "a\nround the total of\nevery invoice to two decimals\nb"
    scrubbed = Scrubber(invoices()).scrub(text).text
    assert scrubbed.split("\n")[-1] == "b"
    assert scrubbed.count("\n") == text.count("\n")


def test_a_root_skill_and_a_skill_called_hidden_are_scrubbed_and_end() -> None:
    assert (
        Scrubber(a_skill(".", name="sums", body="x\n")).scrub("sums, dotted. path/a").text
        == f"{HIDDEN}, dotted. path/a"
    )
    hidden = a_skill("skills/hidden", body="what is hidden is hidden from all who look for it here\n")
    assert Scrubber(hidden).scrub("hidden is hidden from all who look for it").text == HIDDEN


def test_what_nobody_can_see_goes_with_the_passage_that_it_stands_in() -> None:
    text = "caf\u00e9 in\u200bvoice-totals\u200b \u2013 f\u00fcr 5 \u20ac"
    assert Scrubber(invoices()).scrub(text).text == f"caf\u00e9 {HIDDEN} \u2013 f\u00fcr 5 \u20ac"
