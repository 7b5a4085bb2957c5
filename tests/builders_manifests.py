"""Trees with manifests, written down as path -> content, for tests of everything in ``gate.intake.manifests``."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

from gate.domain.base import sha256_hex
from gate.domain.skill import REGULAR, SYMLINK, SkillFile
from gate.intake.manifests import ManifestReport, read_manifests
from gate.intake.manifests.global_lock import tree_id
from gate.intake.manifests.schemapin import path_digest
from gate.intake.manifests.sigstore import folder_digest
from gate.settings import SigningTrust

Content = str | bytes | tuple[str, str]
"""Text, bytes, or ("link", target)."""
Tree = dict[str, Content]

SKILL = ".agents/skills/pdf"
MD = "---\nname: pdf\ndescription: Reads PDF files.\n---\n# PDF\n\nText.\n"
SKILL_FILES: dict[str, Content] = {"SKILL.md": MD, "references/a.md": "# A\n", "scripts/x.py": "print(1)\n"}


def data_of(content: Content) -> bytes:
    """What Git would have in the blob."""
    if isinstance(content, tuple):
        return content[1].encode()
    return content.encode() if isinstance(content, str) else content


def skill_file(path: str, content: Content) -> SkillFile:
    """An entry of a skill's folder."""
    data = data_of(content)
    mode = SYMLINK if isinstance(content, tuple) else REGULAR
    return SkillFile(path=path, mode=mode, sha256=sha256_hex(data), size_bytes=len(data), data=data)


def skill_files(tree: Mapping[str, Content], skill: str) -> tuple[SkillFile, ...]:
    """The entries below a folder."""
    start = "" if skill == "." else f"{skill}/"
    return tuple(skill_file(path.removeprefix(start), tree[path]) for path in sorted(tree) if path.startswith(start))


def report_of(
    tree: Tree,
    skill: str = SKILL,
    *,
    committed: bool = True,
    trust: SigningTrust | None = None,
    require_signed: bool = False,
) -> ManifestReport:
    """Everything about the manifests of a skill in a tree."""

    def read(path: str) -> bytes | None:
        content = tree.get(path)
        return None if content is None or isinstance(content, tuple) else data_of(content)

    modes = {path: SYMLINK if isinstance(content, tuple) else REGULAR for path, content in sorted(tree.items())}
    return read_manifests(
        modes,
        read,
        skill,
        files=skill_files(tree, skill),
        committed=committed,
        trust=trust,
        require_signed=require_signed,
    )


def a_statement(files: Mapping[str, Content], **changes: Any) -> bytes:
    """A model-signing bundle over these files, without a real signature."""
    digests = {path: sha256_hex(data_of(content)) for path, content in sorted(files.items())}
    whole = hashlib.sha256(b"".join(bytes.fromhex(item) for item in digests.values())).hexdigest()
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "pdf", "digest": {"sha256": whole}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
                "ignore_paths": [".git", ".gitattributes", ".github", ".gitignore"],
            },
            "resources": [{"name": path, "algorithm": "sha256", "digest": item} for path, item in digests.items()],
        },
        **changes,
    }
    return a_bundle(json.dumps(statement).encode())


def a_bundle(payload: bytes) -> bytes:
    """A Sigstore bundle around any payload."""
    return json.dumps(
        {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": "none"}, "tlogEntries": []},
            "dsseEnvelope": {
                "payload": base64.b64encode(payload).decode(),
                "payloadType": "application/vnd.in-toto+json",
                "signatures": [{"sig": base64.b64encode(b"no signature").decode(), "keyid": ""}],
            },
        }
    ).encode()


def a_sigstore(files: Mapping[str, Content]) -> bytes:
    """A ``SKILL.sigstore`` over these files."""
    digest = folder_digest([skill_file(path, content) for path, content in files.items()])
    message = {"messageDigest": {"algorithm": "SHA2_256", "digest": base64.b64encode(digest).decode()}}
    return json.dumps({"messageSignature": message, "verificationMaterial": {"certificate": {}}}).encode()


def a_schemapin(files: Mapping[str, Content]) -> bytes:
    """A ``.schemapin.sig`` over these files."""
    digests = {path: path_digest(skill_file(path, content)) for path, content in sorted(files.items())}
    whole = sha256_hex("".join(digests[path] for path in sorted(digests)).encode())
    listed = {path: f"sha256:{item}" for path, item in digests.items()}
    return json.dumps({"domain": "example.com", "skill_hash": f"sha256:{whole}", "file_manifest": listed}).encode()


def a_global_lock(files: Mapping[str, Content]) -> bytes:
    """A global lock, version 3."""
    wanted = tree_id([skill_file(path, content) for path, content in files.items()])
    entry = {"source": "o/r", "sourceType": "github", "sourceUrl": "u", "skillFolderHash": wanted}
    return json.dumps({"version": 3, "skills": {"pdf": entry}}, indent=1).encode()


def a_zip(files: Mapping[str, Content], change: Callable[[zipfile.ZipFile], None] | None = None) -> bytes:
    """A zip with these files; ``change`` may add what else a test needs."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path), data_of(content), zipfile.ZIP_DEFLATED)
        if change is not None:
            change(archive)
    return stream.getvalue()


def a_tar(files: Mapping[str, Content], *entries: tarfile.TarInfo, mode: str = "w:gz") -> bytes:
    """A tar.gz with these files and further entries that have no content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload] # a mode that mypy does not know
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data_of(content))
            archive.addfile(entry, io.BytesIO(data_of(content)))
        for entry in entries:
            archive.addfile(entry)
    return stream.getvalue()
