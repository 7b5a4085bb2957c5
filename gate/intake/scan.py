"""The static scan: what in a skill's files could work against whoever reads or runs them.

Nothing here proves that a skill is harmless, and no finding but one says that it is harmful: secrets that are sent away
(``scan/exfiltration``) block, all else is shown. Text that teaches defence quotes attacks; where the words around a line
say so, it is a notice; an order in the words of a warning ("never forget to …") is none. Files that were not read are
named (``scan/not-read``), so that silence means "read".
"""

from __future__ import annotations

import bisect
import datetime as dt
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gate.domain.findings import Finding, Level
from gate.domain.skill import EXECUTABLE, JUDGING_FOLDERS, PROGRAM_SUFFIXES, Skill, SkillFile, is_agent_visible
from gate.evidence.suspicious import hits, lines_with, lowered
from gate.intake.mentions import Mentions
from gate.intake.notes import Notes, joined, short
from gate.intake.suite_places import is_suite_file
from gate.settings import Suppression, matches

MAX_FILE_BYTES = 32_000_000
MAX_WEIGHT = 4_000_000
"""Of all files of a skill together, see ``_weight``: half a minute for the worst text, and no text of people comes near it."""
_PROSE = (".md", ".mdx", ".markdown", ".txt", ".rst", ".adoc")
_EVALS = frozenset(JUDGING_FOLDERS) - {"tests", "test", "fixtures"}
_DATA = (
    (b"\x89PNG\r\n\x1a\n", (".png",)), (b"\xff\xd8\xff", (".jpg", ".jpeg")), (b"GIF8", (".gif",)), (b"RIFF", (".webp", ".wav")),
    (b"%PDF-", (".pdf",)), (b"PK\x03\x04", (".zip", ".docx", ".xlsx", ".pptx", ".jar", ".whl", ".skill")), (b"\x1f\x8b", (".gz", ".tgz")),
    (b"wOFF", (".woff",)), (b"wOF2", (".woff2",)), (b"\0\x01\0\0", (".ttf",)), (b"OTTO", (".otf",)), (b"SQLite format 3\0", (".db", ".sqlite")),
    (b"\0\0\x01\0", (".ico",)), (b"ID3", (".mp3",)), (b"PAR1", (".parquet",)), (b"\0asm", (".wasm",)),
)  # fmt: skip
_DATA_ENDS = (*(end for _, ends in _DATA for end in ends), ".mp4", ".mov", ".bin", ".onnx", ".npy", ".tar")
_JUDGE_RULES = ("addresses_judge", "asks_for_verdict", "mimics_verdict")
"""Of the rules of ``gate.evidence.suspicious``: what speaks to a judge. The other ones are ordinary in instructions."""
_HIDDEN = {
    "zero_width": "an invisible character between visible ones",
    "bidi": "a character that turns the direction of text, so that it reads otherwise than it is",
    "tag_characters": "tag characters, which are invisible and which models read as text",
}

# A line that goes on after a backslash is one command. Its inner line ends become this sign, so that lines still count.
_JOIN = "\v"

_HOME = r"(?:~|\$HOME|\$\{HOME\}|%USERPROFILE%|/root|/home/[\w.-]{1,40}|/Users/[\w.-]{1,40})"
_PATH = (
    rf"(?:{_HOME}/\.(?:ssh(?:/(?!known_hosts|config\b|authorized_keys)[\w*-]{{1,60}})?(?!\S{{0,60}}\.pub\b)"
    r"|aws/credentials|netrc|npmrc|pypirc|git-credentials|docker/config\.json|kube/config|gnupg|azure|config/gcloud"
    r"|config/gh/hosts\.yml|(?:bash|zsh)_history)|/etc/shadow|(?<![\w/.-])(?:\./)?\.env(?:\.[a-z]{1,20})?(?![\w.-]))"
)
_SENDER = r"(?:curl|wget|nc|ncat|netcat|socat|https?ie|xh|Invoke-WebRequest|Invoke-RestMethod|iwr|irm)\b"
_WHOLE_ENV = r"(?:printenv|env|export -p|Get-ChildItem env:)"
_COMMANDS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        # A secret file as the body of a request.
        (
            rf"\b(?:curl|xh|wget)\b[^\n]{{0,300}}?\s(?:(?:-T|--upload-file|--post-file|--body-file)[ =]['\"]?{_PATH}"
            rf"|(?:-d|--data(?:-\w{{1,12}})?|-F|--form|--json)[ =]?['\"]?(?:[\w\[\].-]{{1,40}}=)?@['\"]?{_PATH})"
        ),
        # A secret file, or everything in the environment, through a pipe into a sender.
        rf"{_PATH}[^\n|]{{0,120}}(?:\|[^\n|]{{1,120}}){{0,3}}\|\s*(?:sudo\s+)?{_SENDER}",
        rf"(?:^|[;&(`$'\"])\s*{_WHOLE_ENV}\s*(?:\|[^\n|]{{1,120}}){{0,3}}\|\s*(?:sudo\s+)?{_SENDER}",
        rf"\b(?:nc|ncat|netcat|socat)\b[^\n]{{0,120}}<\s*{_PATH}",
        # Put into the address or the body by a substitution.
        (
            rf"\b{_SENDER}[^\n]{{0,300}}?(?:\$\(|`)\s*(?:(?:<|(?:cat|base64|tar|gzip|head|tail|xxd)\b)[^\n)`]{{0,80}}{_PATH}"
            rf"|{_WHOLE_ENV}\s*[|)`])"
        ),
        rf"\b(?:dig|nslookup|ping)\b[^\n]{{0,80}}?(?:\$\(|`)[^\n)`]{{0,80}}(?:{_PATH}|\b{_WHOLE_ENV}\b)",
        # The same in programs.
        (
            r"(?:\b(?:requests|httpx|axios)\.(?:post|put|get|request)|\bfetch|\burlopen)\s{0,3}\([^\n]{0,200}"
            rf"(?:\bdict\(os\.environ\)|\bos\.environ\.copy\(|\bJSON\.stringify\(process\.env\)|\bprocess\.env\s{{0,3}}[,)}}]"
            rf"|(?:\bopen|\bexpanduser|\bPath|\breadFileSync)\(\s{{0,3}}['\"]{_PATH})"
        ),
    )
)
_HEADER = re.compile(r"(?:-H|--header)[ =]?['\"][^'\"\n]{0,80}$")
"""A secret in a header authenticates a request; it is not its message."""
_DESTINATION = (
    r"(?:https?://(?!(?:localhost|127\.0\.0\.1|example\.(?:com|org)))|[\w.+-]{1,40}@[\w-]{1,40}\.\w|\bwebhook\b"
    r"|\b(?:our|my|this|the following|an? (?:external|remote)|the (?:external|remote)) (?:server|endpoint|url|address|host)\b)"
)
_STRONG = rf"(?:{_PATH}|\bssh keys?\b|\bprivate keys?\b|\benvironment variables\b|\benv vars\b|\bbrowser cookies\b|\bkeychain\b)"
_WEAK = r"(?:\bapi[ -]keys?\b|\baccess tokens?\b|\bpasswords?\b|\bcredentials?\b|\bsecrets\b|\bcookies\b)"
_SEND = r"\b(?:send|post|upload|forward|transmit|exfiltrate|e-?mail|leak|submit)\b"
_TAKE = r"\b(?:read|collect|gather|grab|dump|harvest|steal|extract|copy|cat)\b"


def _told(secret: str) -> re.Pattern[str]:
    """A sentence that tells somebody to send a secret somewhere."""
    return re.compile(
        rf"{_SEND}[^\n.]{{0,100}}{secret}[^\n]{{0,80}}\b(?:to|at|via)\b[^\n]{{0,60}}{_DESTINATION}"
        rf"|{_TAKE}[^\n.]{{0,100}}{secret}[^\n]{{0,100}}{_SEND}[^\n]{{0,80}}{_DESTINATION}"
        rf"|{secret}[^\n。]{{0,40}}(?:发送|上传|提交|发给|传到)[^\n。]{{0,40}}https?://"
        rf"|(?:发送|上传|提交)[^\n。]{{0,40}}{secret}[^\n。]{{0,40}}https?://",
        re.IGNORECASE,
    )


_STRONG_PROSE = _told(_STRONG)
_WEAK_PROSE = _told(_WEAK)
_COMMAND_WORDS = (
    ".ssh", ".aws", "netrc", ".npmrc", ".pypirc", "git-credentials", ".docker/", ".kube/", ".gnupg", ".azure", ".config/",
    "_history", "/etc/shadow", "env", "export -p",
)  # fmt: skip
_STRONG_WORDS = (*_COMMAND_WORDS, "ssh key", "private key", "browser cookies", "keychain")
_WEAK_WORDS = ("api key", "api-key", "access token", "password", "credential", "secrets", "cookies")
_DESTINATION_WORDS = ("http", "@", "webhook", "server", "endpoint", "url", "address", "host")
_NEGATION = re.compile(
    r"\b(?:never|do(?:es)? not|don'?t|must(?: not|n'?t)|should(?: not|n'?t)|avoid|without|cannot|can'?t|won'?t|prevent\w*|"
    r"block\w*|forbid\w*|refuse\w*|no skill|not)\b|不要|禁止|切勿|不得",
    re.IGNORECASE,
)
_DEFENCE = re.compile(
    r"\b(?:malicious\w*|attack\w*|exfiltrat\w*|injection\w*|red[ -]flags?|suspicious\w*|anti-?patterns?|threats?|vulnerab\w*|"
    r"unsafe|dangerous|never|do not|don'?t|bad example|detect\w*|reject\w*|forbidden|phishing|malware|hostile|"
    r"security (?:review|audit|scan)\w*|blocked)\b|[❌🚫]|攻击|恶意|禁止|切勿|危险",
    re.IGNORECASE,
)
_NO = r"(?:\b(?:never|do(?:es)? not|don['\u2019]?t|must(?: not|n['\u2019]?t)|should(?: not|n['\u2019]?t)|cannot|can['\u2019]?t|may not|not)\b)"
_NO_ZH = r"(?:不要|禁止|切勿|不得|不可|不能|请勿|勿|别)"
_ORDER = re.compile(
    # What must not be left out must be done.
    rf"{_NO}(?:[ \t]+[\w'\u2019]+){{0,4}}?[ \t*_]+(?:forget|skip|miss|omit|fail|neglect|hesitate|overlook|refuse|ignore|leave out|bypass|delay)\w*"
    rf"|{_NO_ZH}[^\n。\uff0c\uff1b]{{0,4}}?(?:忘|跳过|遗漏|省略|漏|错过|忽略|拒绝|犹豫)"
    # Nothing else is to be done until this is.
    rf"|{_NO}[^\n.;!?。]{{0,120}}?\b(?:before|until|till|unless|without|except)\b"
    rf"|{_NO_ZH}[^\n。\uff1b]{{0,60}}?(?:之前|以前|直到|除非|否则)"
    # What is said of this is said of something else: "To avoid errors, send …".
    r"|\b(?:without|(?:to|in order to) (?:avoid|prevent))\b[^\n.;!?。]{1,80},",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"(?:\b(?:until|till|unless|without having|before (?:you have|you've|having)|if you (?:have not|haven't|did not|didn't))\b"
    r"|除非|直到|没有|如果不)[^\n.;!?。\uff1b]{0,80}$",
    re.IGNORECASE,
)
_BEFORE_ZH = re.compile(rf"(?:之前|以前)[^\n。]{{0,4}}?{_NO_ZH}")
_AFTER = re.compile(rf"{_NO}|{_NO_ZH}|\bforbidden\b", re.IGNORECASE)


def _without_orders(before: str, rest: str) -> str:
    """A line without the negations that order what stands at a place in it ("never forget to …", "do not … before you …"),
    ``before`` the place and from there on."""
    depends = _CLAUSE.search(before) or _BEFORE_ZH.search(rest)
    return _ORDER.sub(" ", before) + (_AFTER.sub(" ", rest) if depends else rest)


_PIPE_TO_SHELL = re.compile(
    r"\b(?:curl|wget)\b[^\n|;]{0,300}\|\s*(?:sudo\s+(?:-\w+\s+)*)?(?:env\s+\S{1,60}\s+)?(?:/(?:usr/)?bin/)?"
    r"(?:ba|z|da|k|fi)?sh\b(?!\.)"
    r"|\b(?:curl|wget)\b[^\n|;]{0,300}\|\s*(?:sudo\s+)?(?:python3?|node|perl|ruby)\b(?:\s+-(?!\w)|\s*$|\s*[;&`'\"])"
    r"|\b(?:ba|z|da|k)?sh\b(?:\s+-c)?\s+['\"]?(?:<|\$)\((?:curl|wget)\b"
    r"|\beval\s+['\"]?\$\((?:curl|wget)\b"
    r"|\b(?:iex|Invoke-Expression)\b[^\n]{0,40}\b(?:irm|iwr|Invoke-WebRequest|Invoke-RestMethod|DownloadString)\b"
    r"|\b(?:irm|iwr)\b[^\n|]{0,200}\|\s*(?:iex|Invoke-Expression)\b",
    re.IGNORECASE | re.MULTILINE,
)
_RUNNER = re.compile(
    r"^[ \t]*::(?:error|warning|notice|debug|group|endgroup|add-mask|set-output|save-state|set-env|add-path|"
    r"stop-commands|echo|add-matcher|remove-matcher)\b[^\n]{0,80}::|^##\[(?:error|warning|command|group|section|debug)\]",
    re.MULTILINE,
)
_LOAD_TIME = re.compile(r"(?:^|(?<=\s))!`[^`\n]{1,300}`|^[ \t]*```!", re.MULTILINE)
_HOST_PATH = re.compile(
    r"(?<![\w/])/(?:Users|home)/(?!(?:user|username|you|yourname|your-name|me|name|runner|node|ubuntu|app|\.\.\.|<|\$|\{)\b)"
    r"[A-Za-z][\w.-]{1,40}/"
    r"|\b[A-Z]:\\Users\\(?!(?:user|username|you|name|Public)\b)[\w.-]{2,40}\\",
)


class _Folded(NamedTuple):
    """A rule whose places in a file make one finding."""

    name: str
    pattern: re.Pattern[str]
    words: tuple[str, ...]
    """In lower case: a line without any of them is not looked at."""
    message: str
    level: Level


_FOLDED = (
    _Folded("pipe-to-shell", _PIPE_TO_SHELL, ("curl", "wget", "iwr", "irm", "iex", "invoke-"),
            "a download is piped into a shell, so whoever serves it decides what runs", Level.WARNING),
    _Folded("runner-command", _RUNNER, ("::", "##["),
            "a line reads as a command to a CI runner where it is printed", Level.NOTICE),
    _Folded("host-path", _HOST_PATH, ("/users/", "/home/", ":\\users\\"),
            "a path in somebody's home folder exists on one machine only", Level.NOTICE),
)  # fmt: skip
_SECRETS = (
    ("an AWS access key", ("AKIA", "ASIA"), re.compile(r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b")),
    (
        "a GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bgithub_pat_[A-Za-z0-9_]{60,}"),
    ),
    ("an Anthropic key", ("sk-ant-",), re.compile(r"\bsk-ant-[a-z]+\d{2}-[A-Za-z0-9_-]{60,}")),
    ("an OpenAI key", ("sk-proj-", "sk-svcacct-"), re.compile(r"\bsk-(?:proj|svcacct)-[A-Za-z0-9_-]{60,}")),
    ("a Slack token", ("xox",), re.compile(r"\bxox[abprs]-\d{8,}-[A-Za-z0-9-]{20,}")),
    (
        "a private key",
        ("PRIVATE KEY-----",),
        re.compile(r"-----BEGIN (?:RSA |EC |OPENSSH |DSA )?PRIVATE KEY-----\s{1,4}[A-Za-z0-9+/=]{40,}"),
    ),
)
_PLACEHOLDER = re.compile(r"EXAMPLE|X{5,}|x{5,}|0{6,}|1234|abcd|your|\.\.\.", re.IGNORECASE)


class _Text(NamedTuple):
    """A file that is scanned."""

    path: str
    """Repository-relative."""
    text: str
    """Line ends normalised."""
    prose: bool
    garbled: bool = False
    """No text throughout."""


def scan_skill(
    skill: Skill, *, suppressions: Sequence[Suppression] = (), today: str | None = None
) -> tuple[Finding, ...]:
    """What the files of a skill hold that whoever uses it gets. Sorted by file and line; one finding per rule and file.

    Every file outside of the evals is read, also what the gate keeps from the agent under test (``tests/``, manifests);
    of the evals what a text of the skill names. A file that is kept back though a text names it is a warning
    (``scan/withheld``), and so is one that is too large (``scan/not-read``): no verdict can rest on it.

    ``suppressions`` are the base policy's; one that has expired on ``today`` (ISO date) counts for nothing, and without a
    date none counts. A suppressed finding stays, as a notice with owner, reason and end. Never raises for any content.
    Linear in the size of the files.
    """
    findings: list[Finding] = []
    left = MAX_WEIGHT
    withheld = _withheld(skill)
    for file in sorted(skill.files, key=lambda item: (item.path != skill.skill_md, item.path)):
        named = withheld.get(file.path)
        if not file.is_regular or (named is False and _judges(file.path)):
            continue
        place = joined(skill.path, file.path)
        if named:
            notes = Notes(place, "scan")
            notes.warn("withheld", "a text of the skill names this file, and the gate keeps it from the agent under test, as files "
                       "of this name or folder judge a skill", remedy="Give it a name or a folder that is not one of evals, tests or "
                       "manifests, or take the words out.")  # fmt: skip
            findings += notes.items
        if _is_data(file):
            continue
        read = file.size_bytes <= MAX_FILE_BYTES and len(file.data) == file.size_bytes
        text = _text_of(file) if read else ""
        weight = _weight(text)
        if not read or weight > left:
            notes = Notes(place, "scan")
            notes.add(
                Level.NOTICE if _looks_binary(file) else Level.WARNING,
                "not-read",
                f"{file.size_bytes} bytes are too many to be scanned (at most {MAX_FILE_BYTES} a file, and less where much of a skill "
                "could be commands that send secrets)",
                remedy="Make it smaller, or keep it out of the skill.",
            )
            findings += notes.items
            continue
        left -= weight
        found = _scan(_Text(place, text, file.path.lower().endswith(_PROSE), _is_garbled(file)))
        findings += [_aside(item) for item in found] if named is False else found
    return tuple(_suppressed(item, suppressions, today) for item in findings)


def _weight(text: str) -> int:
    """How long a text takes to be scanned, in characters that patterns go over: lines with a word of a secret place count
    whole, all else a sixteenth, as only words are looked for in it."""
    return len(text) // 16 + sum(end - start for start, end in lines_with(lowered(text), _COMMAND_WORDS))


def _withheld(skill: Skill) -> dict[str, bool]:
    """The files that the agent under test does not get -> whether a text that it gets names them."""
    hidden = [item.path for item in skill.files if item.is_regular and not is_agent_visible(item.path)]
    if not hidden:
        return {}
    mentions = Mentions(
        item.data for item in skill.files if item.is_regular and is_agent_visible(item.path) and not _is_data(item)
    )
    return {path: mentions.of(path) for path in hidden}


def _judges(path: str) -> bool:
    """Whether a file is of the evals or of Git: attacks that a skill must withstand stand there by right."""
    parts = path.casefold().split("/")
    return ".git" in parts or parts[0] in _EVALS or is_suite_file(path)


def _aside(finding: Finding) -> Finding:
    """A finding about a file that no agent is led to: samples of attacks lie in tests."""
    if not finding.blocks:
        return finding
    return finding.model_copy(update={"level": Level.WARNING, "blocks": False})


def _is_data(file: SkillFile) -> bool:
    """A picture, an archive or the like, by its first bytes and its name: a program can start with any bytes."""
    lower = file.path.lower()
    return file.mode != EXECUTABLE and any(
        file.data.startswith(magic) and lower.endswith(ends) for magic, ends in _DATA
    )


def _looks_binary(file: SkillFile) -> bool:
    """For files that are not read whole."""
    lower = file.path.lower()
    if file.mode == EXECUTABLE or lower.endswith((*_PROSE, *PROGRAM_SUFFIXES)):
        return False
    return lower.endswith(_DATA_ENDS) or b"\0" in file.data[:8192]


def _is_garbled(file: SkillFile) -> bool:
    """Whether bytes are no text throughout: signs that hide in text say nothing there."""
    return b"\0" in file.data or file.data.decode("utf-8-sig", "replace").count("\ufffd") > max(
        8, file.size_bytes // 50
    )


def _text_of(file: SkillFile) -> str:
    """A file as a shell or an agent reads it: no byte of it takes the rest out of sight."""
    if file.data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = file.data.decode("utf-16", "replace")
    else:
        text = file.data.replace(b"\0", b"").decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace(_JOIN, " ")


def _scan(text: _Text) -> tuple[Finding, ...]:
    notes = Notes(text.path, "scan")
    if not text.garbled:
        _hidden(text, notes)
    if text.prose:
        _judge(text, notes)
        _load_time(text, notes)
    _exfiltration(text, notes)
    for rule in _FOLDED:
        _folded(text, notes, rule)
    _secrets(text, notes)
    return tuple(sorted(notes.items, key=lambda item: item.line or 0))


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + text.count(_JOIN, 0, at) + 1


def _hidden(text: _Text, notes: Notes) -> None:
    if text.text.isascii():
        return
    for rule, at, sign in hits(text.text, tuple(_HIDDEN)):
        line = _line(text.text, at)
        column = at - (text.text.rfind("\n", 0, at) + 1) + 1
        notes.add(
            Level.WARNING,
            f"hidden-{rule.replace('_', '-')}",
            f"{_HIDDEN[rule]} (U+{ord(sign[0]):04X})",
            line=line,
            column=column,
            remedy="Remove it, or write it as an escape.",
        )


def _judge(text: _Text, notes: Notes) -> None:
    """Two different signs together are a warning: skills that write or grade texts speak of scores too."""
    found = list(hits(text.text, _JUDGE_RULES))
    if not found:
        return
    rules = sorted({rule for rule, _, _ in found})
    first = min(found, key=lambda item: item[1])
    aloud = len(rules) > 1 and not _Defence(text.text).at(first[1])
    notes.add(
        Level.WARNING if aloud else Level.NOTICE,
        "judge-directed",
        f'"{short(first[2], 60)}" reads as if it spoke to whoever judges the output ({", ".join(rules)})',
        line=_line(text.text, first[1]),
        remedy="Say it in other words, unless the skill is about judging.",
    )


def _load_time(text: _Text, notes: Notes) -> None:
    if "!`" not in text.text and "```!" not in text.text:
        return
    found = list(_LOAD_TIME.finditer(text.text))
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        notes.notice(
            "load-time-command",
            f'"{short(found[0][0], 60)}"{more}: some hosts run this when the skill is loaded, before an agent has read it',
            line=_line(text.text, found[0].start()),
        )


def _exfiltration(text: _Text, notes: Notes) -> None:
    """Secrets that are sent away. One finding a file: the worst."""
    whole = _joined(text.text)
    found = sorted(_sendings(whole, prose=text.prose), key=lambda item: (item[0], item[1]))
    if not found:
        return
    defence = _Defence(whole) if text.prose else None
    places = [(weak or (defence is not None and defence.at(at)), weak, at, words) for weak, at, words in found]
    mild, weak, at, words = min(places)
    quoted = f'"{short(words, 100)}"'
    more = f" ({len(found)} places)" if len(found) > 1 else ""
    line = _line(whole, at)
    if not mild:
        notes.block("exfiltration", f"{quoted} sends secrets of whoever runs it somewhere else{more}", line=line,
                    remedy="Take it out; if it teaches defence, say so in the line or the heading above it.")  # fmt: skip
    elif weak:
        notes.warn("secret-sent", f"{quoted} speaks of sending a secret to an address{more}", line=line)
    else:
        notes.notice("exfiltration-example", f"{quoted} would send secrets away; the text around it warns of that{more}",
                     line=line)  # fmt: skip


def _sendings(whole: str, *, prose: bool) -> Iterator[tuple[bool, int, str]]:
    """(weak, offset, words) of every place where a secret is sent."""
    lower = lowered(whole)
    spans = lines_with(lower, _COMMAND_WORDS)
    for pattern in _COMMANDS:
        for match in _matches(pattern, whole, spans):
            inner = max(match[0].rfind("$("), match[0].rfind("`"))
            if inner >= 0 and _HEADER.search(match[0][:inner]):
                continue
            yield False, match.start() + (len(match[0]) - len(match[0].lstrip())), match[0]
    if not prose:
        return
    for weak, sentence, words in ((False, _STRONG_PROSE, _STRONG_WORDS), (True, _WEAK_PROSE, _WEAK_WORDS)):
        # Without a place to send to there is nothing to find, however often a line speaks of secrets.
        told = [
            (start, end)
            for start, end in lines_with(lower, words)
            if any(lower.find(word, start, end) >= 0 for word in _DESTINATION_WORDS)
        ]
        for match in _matches(sentence, whole, told):
            near = max(0, match.start() - 120)
            start = max(whole.rfind("\n", near, match.start()), whole.rfind(". ", near, match.start())) + 1
            if not _NEGATION.search(_without_orders(whole[max(start, near) : match.start()], match[0])):
                yield weak, match.start(), match[0]


def _matches(pattern: re.Pattern[str], text: str, spans: Sequence[tuple[int, int]]) -> Iterator[re.Match[str]]:
    for start, end in spans:
        yield from pattern.finditer(text, start, end)


def _joined(text: str) -> str:
    """A text whose commands stand on one line each."""
    return text.replace("\\\n", " " + _JOIN)


def _folded(text: _Text, notes: Notes, rule: _Folded) -> None:
    """One finding for all places of a rule; a notice where every place is in a warning."""
    whole = _joined(text.text)
    found = list(_matches(rule.pattern, whole, lines_with(lowered(whole), rule.words)))
    if not found:
        return
    level = rule.level
    if level is not Level.NOTICE and text.prose:
        defence = _Defence(whole)
        level = Level.NOTICE if all(defence.at(item.start()) for item in found) else level
    first = found[0]
    more = f" (and {len(found) - 1} more places)" if len(found) > 1 else ""
    at = first.start() + (len(first[0]) - len(first[0].lstrip()))
    notes.add(level, rule.name, f'"{short(first[0], 80)}": {rule.message}{more}', line=_line(whole, at))


def _secrets(text: _Text, notes: Notes) -> None:
    for what, signs, pattern in _SECRETS:
        if not any(sign in text.text for sign in signs):
            continue
        for match in pattern.finditer(text.text):
            if _PLACEHOLDER.search(match[0]) or len(set(match[0][-30:])) < 10:
                continue
            # Its text is not repeated: findings are published.
            notes.warn("secret", f"this looks like {what}", line=_line(text.text, match.start()),
                       remedy="Withdraw the key where it was issued, then take it out.")  # fmt: skip
            break


class _Defence:
    """Whether the words around a place in a text say that it is a warning: its line, the three before, the headings above.

    Asked for many places, so headings are looked for once, and of a long line only what is near.
    """

    def __init__(self, whole: str) -> None:
        self._whole = whole
        self._starts: list[int] = []
        self._warns: list[bool] = []
        above: list[tuple[int, bool]] = []
        for match in _HEADING.finditer(whole):
            while above and above[-1][0] >= len(match[1]):
                above.pop()
            above.append((len(match[1]), _warns(match[2])))
            self._starts.append(match.start())
            self._warns.append(any(warns for _, warns in above))

    def at(self, place: int) -> bool:
        """About an offset in the text."""
        heading = bisect.bisect_right(self._starts, place) - 1
        if heading >= 0 and self._warns[heading]:
            return True
        end = self._whole.find("\n", place, place + _NEAR)
        *above, before = self._whole[max(0, place - _NEAR) : place].split("\n")
        rest = self._whole[place : place + _NEAR if end < 0 else end]
        return _warns(before, rest) or any(_warns(line) for line in above[-3:])


def _warns(before: str, rest: str = "") -> bool:
    return bool(_DEFENCE.search(_without_orders(before, rest)))


_NEAR = 1_000
_HEADING = re.compile(r"^(#{1,6})[ \t]+([^\n]{1,200})", re.MULTILINE)


def _suppressed(finding: Finding, suppressions: Sequence[Suppression], today: str | None) -> Finding:
    for item in suppressions:
        if item.rule == finding.rule and matches(item.path, finding.path) and _lasts(item, today):
            return finding.model_copy(
                update={
                    "level": Level.NOTICE,
                    "blocks": False,
                    "message": f"{finding.message}; accepted until {item.expires} by {item.owner}: {item.reason}",
                    "remedy": "",
                }
            )
    return finding


def _lasts(item: Suppression, today: str | None) -> bool:
    try:
        return today is not None and dt.date.fromisoformat(item.expires) >= dt.date.fromisoformat(today)
    except ValueError:
        return False
