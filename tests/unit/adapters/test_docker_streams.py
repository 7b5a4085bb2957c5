from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.adapters.docker_sandbox.streams import Demux, End, Kept, pump


def frame(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """(the gate's end, the engine's end)."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def always() -> bool:
    return True


@given(st.lists(st.binary(max_size=300), max_size=20), st.integers(min_value=0, max_value=400))
def test_what_is_kept_is_bounded_counted_and_has_the_right_ends(parts: list[bytes], cap: int) -> None:
    whole = b"".join(parts)
    kept = Kept(cap)
    for part in parts:
        kept.add(part)
    content = kept.content()

    assert kept.total == len(whole)
    assert len(content) <= cap
    assert kept.truncated == (len(whole) > cap)
    if len(whole) <= cap:
        assert content == whole
    else:
        assert content[: cap // 2] == whole[: cap // 2]


def test_a_cut_is_marked_with_the_exact_number_of_bytes_left_out() -> None:
    kept = Kept(200)
    kept.add(b"h" * 5000)
    kept.add(b"t" * 5000)
    content = kept.content()
    head, mark, tail = content.partition(b"\n[... ")[0], content.split(b"\n")[1], content.rpartition(b"...]\n")[2]

    left_out = int(mark.split()[1])
    assert (set(head), set(tail)) == (set(b"h"), set(b"t"))
    assert len(head) + len(tail) + left_out == 10_000
    assert len(content) == 200


def test_keeping_the_ends_of_a_long_stream_takes_bounded_memory() -> None:
    kept = Kept(1000)
    for _ in range(10_000):
        kept.add(b"x" * 100)

    assert len(kept._tail) < 200_000


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50)), max_size=15),
    st.integers(min_value=1, max_value=40),
    st.booleans(),
)
def test_frames_are_told_apart_wherever_the_socket_cuts_them(
    frames: list[tuple[int, bytes]], size: int, started: bool
) -> None:
    mark = b"mark-of-start"
    wire = (frame(2, mark) if started else b"") + b"".join(frame(stream, data) for stream, data in frames)
    demux = Demux(10_000, mark)
    for start in range(0, len(wire), size):
        demux.feed(wire[start : start + size])
    demux.finish()

    assert demux.stdout.content() == b"".join(data for stream, data in frames if stream == 1)
    assert demux.stderr.content() == b"".join(data for stream, data in frames if stream == 2)
    assert demux.started == started


def test_only_the_exact_mark_in_the_first_place_counts_as_a_start() -> None:
    for early in (b"other", b"xmark", b"OCI runtime exec failed: mark"):
        demux = Demux(1000, b"mark")
        demux.feed(frame(2, early))
        demux.finish()

        assert not demux.started
        assert demux.stderr.content() == early


def test_bytes_that_came_with_the_header_are_not_lost(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(frame(1, b"second"))
    theirs.close()
    demux = Demux(1000)

    end = pump(ours, demux, early=frame(1, b"first "), deadline=time.monotonic() + 20, runs=always)

    assert (end, demux.stdout.content()) == (End.CLOSED, b"first second")


def test_a_deadline_holds_in_silence(pair: tuple[socket.socket, socket.socket]) -> None:
    assert pump(pair[0], Demux(10), deadline=time.monotonic() + 0.05, runs=always) is End.DEADLINE


def test_a_deadline_holds_under_endless_output(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    stop = threading.Event()

    def shout() -> None:
        with theirs:
            while not stop.is_set():
                try:
                    theirs.sendall(frame(1, b"x" * 1000))
                except OSError:
                    return

    thread = threading.Thread(target=shout)
    thread.start()
    end = pump(ours, Demux(10), deadline=time.monotonic() + 0.1, runs=always, hard_cap=1 << 40)
    stop.set()
    ours.close()
    thread.join()

    assert end is End.DEADLINE


def test_too_much_output_ends_the_reading(pair: tuple[socket.socket, socket.socket]) -> None:
    demux = Demux(10)

    end = pump(pair[0], demux, early=frame(1, b"x" * 2000), deadline=time.monotonic() + 20, runs=always, hard_cap=1000)

    assert end is End.FLOOD


def test_a_stream_held_open_by_others_ends_with_its_process(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(frame(1, b"said"))
    demux = Demux(1000)

    end = pump(ours, demux, deadline=time.monotonic() + 60, runs=lambda: False)

    assert (end, demux.stdout.content()) == (End.CLOSED, b"said")


def test_stdin_larger_than_any_buffer_is_sent_while_output_is_read(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    sent = bytes(range(256)) * 10_000

    def echo() -> None:
        got = b""
        while data := theirs.recv(65_536):
            got += data
            theirs.sendall(frame(1, data))
        theirs.sendall(frame(2, b"%d" % len(got)))
        theirs.close()

    thread = threading.Thread(target=echo)
    thread.start()
    demux = Demux(len(sent))
    end = pump(ours, demux, stdin=sent, close_stdin=True, deadline=time.monotonic() + 30, runs=always)
    thread.join()

    assert end is End.CLOSED
    assert demux.stdout.content() == sent
    assert demux.stderr.content() == b"%d" % len(sent)


def test_a_process_that_ends_without_reading_its_stdin_is_no_error(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(frame(1, b"done"))
    theirs.close()
    demux = Demux(1000)

    end = pump(ours, demux, stdin=b"x" * 10_000_000, close_stdin=True, deadline=time.monotonic() + 30, runs=always)

    assert (end, demux.stdout.content()) == (End.CLOSED, b"done")
