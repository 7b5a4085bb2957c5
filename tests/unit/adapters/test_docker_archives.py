from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.adapters.docker_sandbox import archives
from gate.domain.sandbox import Collected, PutFile
from gate.errors import SandboxError

QUOTA = 1_000_000


def member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """An archive as an engine sends it: PAX, ended by two empty blocks and nothing more."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
        length = archive.offset
    return buffer.getvalue()[:length] + bytes(1024)


def pieces(data: bytes, size: int = 1000) -> Iterator[bytes]:
    return iter([data[start : start + size] for start in range(0, len(data), size)])


def read(data: bytes, *, max_bytes: int = QUOTA, max_files: int = 100) -> tuple[Collected, bytes | None]:
    return archives.collect_members(
        pieces(data), root="work", max_bytes=max_bytes, max_files=max_files, quota_bytes=QUOTA
    )


def paths(collected: Collected) -> list[str]:
    return [item.path for item in collected.files]


def test_files_are_taken_sorted_and_the_gates_own_are_left_out() -> None:
    collected, sentinel = read(
        tar(
            member("work/", type=tarfile.DIRTYPE),
            member("work/.skill-gate/", type=tarfile.DIRTYPE),
            member("work/.skill-gate/sentinel", b"proof"),
            member("work/z", b"1", mode=0o755),
            member("work/a/b", b"22"),
        )
    )

    assert [(item.path, item.data, item.executable) for item in collected.files] == [
        ("a/b", b"22", False),
        ("z", b"1", True),
    ]
    assert sentinel == b"proof"
    assert collected.refused == ()


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "work/../../etc/passwd",
        "work/a/../b",
        "work/./../x",
        "work/new\nline",
        "work/esc\x1b[2J",
        "work/" + "a" * 256,
        "work/" + "/".join("a" * 65),
        "work/" + "/".join(["abcdefghij" * 20] * 6),
        "work/bad\udcff",
    ],
)
def test_one_hostile_name_is_refused_and_the_rest_is_kept(name: str) -> None:
    collected, _ = read(tar(member("work/before", b"1"), member(name, b"evil"), member("work/later", b"2")))

    assert paths(collected) == ["before", "later"]
    assert len(collected.refused) == 1
    assert "\n" not in collected.refused[0]
    assert "\x1b" not in collected.refused[0]


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.SYMTYPE, "../../etc"),
        (tarfile.LNKTYPE, "work/before"),
        (tarfile.FIFOTYPE, ""),
        (tarfile.CHRTYPE, ""),
        (tarfile.BLKTYPE, ""),
    ],
)
def test_what_is_no_file_is_refused_and_the_rest_is_kept(kind: bytes, target: str) -> None:
    odd = member("work/odd", type=kind, linkname=target)
    collected, _ = read(tar(member("work/before", b"1"), odd, member("work/later", b"2")))

    assert paths(collected) == ["before", "later"]
    assert len(collected.refused) == 1
    assert "odd" in collected.refused[0]
    assert target in collected.refused[0]


def test_names_that_differ_in_case_only_are_kept_once() -> None:
    collected, _ = read(tar(member("work/README", b"1"), member("work/readme", b"2")))

    assert paths(collected) == ["README"]
    assert "readme" in collected.refused[0]


def test_a_terabyte_is_refused_by_its_announcement_and_never_read() -> None:
    info, _ = member("work/bomb")
    info.size = 1 << 40
    head = tar(member("work/before", b"1"))[:-1024] + info.tobuf(tarfile.GNU_FORMAT)
    given_out = []

    def endless() -> Iterator[bytes]:
        yield head
        while True:
            given_out.append(1)
            yield bytes(65_536)

    collected, _ = archives.collect_members(endless(), root="work", max_bytes=10, max_files=10, quota_bytes=QUOTA)

    assert paths(collected) == ["before"]
    assert "1,099,511,627,776" in collected.refused[0]
    assert len(given_out) <= 2


def test_many_files_of_holes_end_at_the_limit_of_the_stream() -> None:
    def endless() -> Iterator[bytes]:
        for number in range(10**6):
            info, _ = member(f"work/{number:07}")
            info.size = QUOTA
            yield info.tobuf(tarfile.GNU_FORMAT) + bytes(-(-QUOTA // 512) * 512)

    collected, _ = archives.collect_members(endless(), root="work", max_bytes=10, max_files=10, quota_bytes=QUOTA)

    assert 0 < len(collected.files) < 100
    assert any("sparse" in sentence for sentence in collected.refused)


@given(st.integers(min_value=1, max_value=4096))
def test_an_archive_that_was_cut_off_is_never_taken_for_a_whole_one(missing: int) -> None:
    whole = tar(member("work/a", b"1" * 700), member("work/b", bytes(700)))

    with pytest.raises(SandboxError):
        read(whole[: max(0, len(whole) - missing)])


def test_an_empty_archive_is_an_error() -> None:
    with pytest.raises(SandboxError):
        read(b"")


def test_refusals_are_counted_where_they_are_too_many_to_list() -> None:
    links = [member(f"work/l{number}", type=tarfile.SYMTYPE, linkname="x") for number in range(500)]
    collected, _ = read(tar(*links))

    assert len(collected.refused) == archives.MAX_REFUSALS + 1
    assert collected.refused[-1].startswith("300 more")


@given(
    st.dictionaries(
        st.text("abcdefgh/._ é", min_size=1, max_size=20).filter(lambda path: archives.check_relative(path) is None),
        st.binary(max_size=2000),
        max_size=8,
    ),
    st.integers(min_value=1, max_value=3000),
)
def test_what_is_packed_comes_back_as_it_was(files: dict[str, bytes], size: int) -> None:
    given_files = [PutFile(path=path, data=data) for path, data in files.items()]
    try:
        packed = archives.pack(given_files, owner=1, under="work")
    except SandboxError:
        return  # a file cannot be the folder of another
    end = packed.rstrip(b"\0")
    whole = packed[: -(-len(end) // 512) * 512] + bytes(1024)
    collected, _ = archives.collect_members(
        pieces(whole, size), root="work", max_bytes=QUOTA, max_files=100, quota_bytes=QUOTA
    )

    unique: dict[str, str] = {}
    for path in files:
        unique.setdefault(path.casefold(), path)
    assert {item.path: item.data for item in collected.files}.items() <= files.items()
    assert len(collected.files) == len(unique)


def test_packing_is_deterministic_and_owned() -> None:
    files = [PutFile(path="scripts/run.sh", data=b"x", executable=True), PutFile(path="SKILL.md", data=b"y")]
    packed = archives.pack(files, owner=0, under="demo")

    assert packed == archives.pack(files, owner=0, under="demo")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        members = {item.name: (item.uid, item.mode, item.isdir()) for item in archive.getmembers()}
    assert members == {
        "demo": (0, 0o755, True),
        "demo/scripts": (0, 0o755, True),
        "demo/scripts/run.sh": (0, 0o755, False),
        "demo/SKILL.md": (0, 0o644, False),
    }


def test_a_file_that_is_also_a_folder_is_refused() -> None:
    with pytest.raises(SandboxError, match="one path"):
        archives.pack([PutFile(path="a", data=b""), PutFile(path="a/b", data=b"")], owner=0)
