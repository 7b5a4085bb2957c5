"""What a rule means, for people who meet its id somewhere else: in an editor, on GitHub's security page.

Ids are ``family/rule`` (some families have a level more). A rule without an entry of its own has its family's words.
"""

from __future__ import annotations

from typing import NamedTuple


class RuleWords(NamedTuple):
    """A rule for people."""

    title: str
    """A short sentence without a full stop."""
    help: str
    """What it means and what to do."""


FAMILIES: dict[str, str] = {
    "skill-md": "The gate reads SKILL.md as agents do: front matter that starts on line 1, then Markdown. Without a readable name "
    "and description a skill cannot be opened, so only that makes it invalid.",
    "body": "The agent gets the skill's folder and nothing else. What the text points to must be in it.",
    "suite": "Evals decide whether a skill may be merged. A file that is not understood, or a case that checks nothing, would "
    "measure nothing, so it is said with its place.",
    "manifest": "A manifest that ships the skill must say the truth about it: its form, the files it names, their digests, and "
    "who signed them.",
    "scan": "A look at the text and the programs of the skill for things that a person should see before an agent follows them.",
    "profile": "What one validator says of the skill. An error is a refusal by that validator; the gate itself does not block "
    "for it.",
    "changes": "Which skills a change touches is found with Git between the commit where head left its base, and head.",
    "session": "About this run of the gate as a whole.",
    "policy": "The policy is read from the base branch; a change to it takes effect after it is merged.",
    "event": "What is judged and compared follows from the event's own fields.",
    "mutation": "skill-gate mutate changes one instruction of SKILL.md at a time and judges it like any change.",
    "input": "On a pull request an input may only make the gate stricter than the base branch's policy says.",
}
_GENERAL = "A finding of the gate's static reading."

RULES: dict[str, RuleWords] = {
    "skill-md/missing": RuleWords("There is no SKILL.md", "Add a SKILL.md to the folder, or remove the folder."),
    "skill-md/link": RuleWords(
        "SKILL.md is a symbolic link",
        "Links are never followed: one could lead to a secret of the machine. Commit a plain file.",
    ),
    "skill-md/no-file": RuleWords("SKILL.md is no plain file", "A submodule stands in its place. Commit a plain file."),
    "skill-md/too-large": RuleWords("SKILL.md is too large to read", "Move what is long into files of references/."),
    "skill-md/encoding": RuleWords("SKILL.md is no UTF-8 text", "Save the file as UTF-8 without NUL bytes."),
    "skill-md/byte-order-mark": RuleWords(
        "A byte order mark stands before the front matter", "Some hosts do not skip it and then see no front matter."
    ),
    "skill-md/empty": RuleWords("SKILL.md is empty", "Start it with front matter that has a name and a description."),
    "skill-md/no-front-matter": RuleWords(
        "There is no front matter", "Start the file with a line ---, the keys name and description, and --- again."
    ),
    "skill-md/fenced": RuleWords(
        "The front matter stands in a code fence", "In a fence it is text and no front matter: remove the fence lines."
    ),
    "skill-md/not-first": RuleWords("Something stands before the front matter", "Move the front matter to line 1."),
    "skill-md/blank-lines": RuleWords("Blank lines stand before the front matter", "Some hosts expect it on line 1."),
    "skill-md/unclosed": RuleWords("The front matter is not closed", "Add a line --- after its last key."),
    "skill-md/yaml": RuleWords(
        "The front matter is not valid YAML",
        "Hosts drop such a skill without a word. Mostly a value holds a colon and a space: put it in quotes.",
    ),
    "skill-md/no-keys": RuleWords("The front matter is empty", "Add a name and a description."),
    "skill-md/no-mapping": RuleWords("The front matter is no mapping", "Write key: value on lines of their own."),
    "skill-md/name-missing": RuleWords("There is no name", "Add name: with the folder's name."),
    "skill-md/name-type": RuleWords(
        "The name is no text", "YAML took it for a number, a date or a truth value: put it in quotes."
    ),
    "skill-md/name-length": RuleWords("The name is too long", "Hosts take 64 characters."),
    "skill-md/name-form": RuleWords(
        "The name has signs that hosts refuse", "Use a-z, 0-9 and single hyphens: pdf-forms."
    ),
    "skill-md/name-folder": RuleWords(
        "Name and folder differ", "The specification wants them equal, and some hosts look a skill up by its folder."
    ),
    "skill-md/name-reserved": RuleWords(
        "The name holds a reserved word", "An upload to the vendor's service refuses it."
    ),
    "skill-md/description-missing": RuleWords(
        "There is no description",
        "An agent decides by the description whether to open the skill. Say what it does and when.",
    ),
    "skill-md/description-type": RuleWords("The description is no text", "Put it in quotes."),
    "skill-md/description-length": RuleWords(
        "The description is too long",
        "Hosts take 1,024 characters (characters, not bytes). Move the rest into the body.",
    ),
    "skill-md/near-miss": RuleWords(
        "A key is probably misspelt", "An unknown key is ignored, so what it says is lost."
    ),
    "skill-md/unknown-keys": RuleWords(
        "Keys outside the specification", "Other hosts ignore them; an upload may refuse them."
    ),
    "skill-md/metadata-type": RuleWords("metadata is no mapping", "Write keys and values below it."),
    "skill-md/compatibility-length": RuleWords("compatibility is too long", "Hosts take 500 characters."),
    "skill-md/skill-type": RuleWords(
        "The declared skill type is unknown",
        "It is text_generation, code_execution or mcp_based; else the gate finds it out.",
    ),
    "skill-md/tools": RuleWords("tools is read as allowed-tools", "The specification calls this key allowed-tools."),
    "skill-md/allowed-tools-type": RuleWords(
        "allowed-tools cannot be read", "Write the tools as text, or as a list of texts."
    ),
    "skill-md/allowed-tools-brackets": RuleWords("A bracket in allowed-tools is not matched", "Close the bracket."),
    "skill-md/two-spellings": RuleWords("Two spellings of SKILL.md stand side by side", "Keep SKILL.md only."),
    "skill-md/too-many-files": RuleWords("The folder holds too many files", "Keep dependencies out of the skill."),
    "skill-md/folder-too-large": RuleWords("The folder is too large", "Keep large data out of the skill."),
    "skill-md/unreadable": RuleWords("A file cannot be read", "Check its permissions."),
    "skill-md/submodule": RuleWords(
        "A submodule lies in the skill", "Its files are not given to the agent: commit copies."
    ),
    "skill-md/link-outside": RuleWords(
        "A symbolic link leads out of the skill", "It is refused: it could lead to a secret. Commit a copy of the file."
    ),
    "skill-md/link-inside": RuleWords(
        "A symbolic link in the skill", "Links are not followed, so the agent gets no such file."
    ),
    "skill-md/nested": RuleWords(
        "A SKILL.md inside another skill", "It belongs to the outer skill and is not judged by itself."
    ),
    "skill-md/ignored": RuleWords(
        "A skill on an ignored path",
        "Backups, templates, tests and translations are no live skills. Name the folder to read it.",
    ),
    "skill-md/path-encoding": RuleWords("The folder's name is no UTF-8", "Rename the folder."),
    "skill-md/base-unreadable": RuleWords(
        "The base version cannot be read", "The head is judged without comparing it to the base."
    ),
    "skill-md/unchanged-lines": RuleWords(
        "Findings about lines that this change does not touch",
        "They were there before. skill-gate check shows them in full.",
    ),
    "body/broken-link": RuleWords("A link leads to nothing", "Add the file, mend the link, or remove it."),
    "body/outside-link": RuleWords(
        "A link leads out of the skill folder", "A skill is shipped as its folder: keep what it needs in there."
    ),
    "body/long": RuleWords(
        "The body is long", "The whole body is read whenever the skill is opened. Move details into references/."
    ),
    "changes/ignored": RuleWords(
        "Changed folders on ignored paths", "Name a folder to judge it, or take it back in by the policy."
    ),
    "changes/shipped": RuleWords(
        "A skill on an ignored path that hosts load",
        "A link or a plugin's manifest leads there, so it is judged like any other.",
    ),
    "changes/submodule": RuleWords("A submodule changed", "Skills in submodules are not looked at."),
    "changes/link": RuleWords("A link to a skill changed", "The skill is judged at its own place."),
    "changes/linked": RuleWords(
        "A file changed that a skill points to", "The skill counts as changed. Keep what it needs in its own folder."
    ),
    "changes/copy": RuleWords(
        "A skill was copied", "The copy is judged as a new skill, without an older version to compare with."
    ),
    "session/no-base": RuleWords("Nothing to compare with", "Every skill counts as new. Name a base with --base."),
    "session/base-is-head": RuleWords("Base and head are one commit", "Nothing changed. Name another --base."),
    "session/dirty": RuleWords("There are uncommitted changes", "Commits are judged; commit first."),
    "changes/by-api": RuleWords(
        "GitHub was asked for what the checkout lacks",
        "Check out the whole history, so that nothing depends on its lists.",
    ),
    "changes/incomplete": RuleWords(
        "Not every changed file is known",
        "What is not listed was not judged, so the state is an error. Check out the whole history.",
    ),
    "changes/cut-tree": RuleWords(
        "Not every file of a commit is known",
        "Skills may be missing, so the state is an error. Check out the whole history.",
    ),
    "event/before-gone": RuleWords("The commit before the push is gone", "More is judged than the push changed."),
    "event/no-common-history": RuleWords(
        "Nothing connects the commit with the default branch", "Every skill is judged by itself; no suite is compared."
    ),
    "event/part": RuleWords("A release was looked at in part", "Leave the input paths out to judge all of it."),
    "mutation/survived": RuleWords(
        "No case guards this instruction",
        "It was changed or taken away and no case noticed, so the next change can break it unseen. Add a check for it.",
    ),
    "mutation/outdated": RuleWords(
        "The mutants are of another SKILL.md", "Their lines are those of an older text. Run skill-gate mutate again."
    ),
    "mutation/false-alarm": RuleWords(
        "A change that means nothing was noticed", "The suite is flaky, or it tests the skill's words and not its work."
    ),
    "input/unknown": RuleWords("There is no such input", "Only the policy of the base branch says this."),
}


def words_of(rule: str) -> RuleWords:
    """A rule for people; its family's words where it has none of its own."""
    found = RULES.get(rule)
    family = FAMILIES.get(rule.partition("/")[0], _GENERAL)
    if found is not None:
        return RuleWords(found.title, f"{found.help} {family}")
    title = rule.rpartition("/")[2].replace("-", " ").replace("_", " ").strip() or rule
    return RuleWords(title[:1].upper() + title[1:], family)
