"""Attempts to get out, each run inside a container. Sent as text and run by that container's own Python: standard library only.

Every attempt says whether it *reached* what it must not reach, and signs its answer with a nonce that lies in the container
only: an attempt that ran elsewhere, or not at all, cannot pass for one that was held. Nothing here changes anything
outside its container even where it succeeds: doors are tried, not walked through. Texts that are searched for arrive
reversed, so that nothing finds the script itself.
"""

# ruff: noqa: PTH108, PTH116, PTH118, PTH202, PTH208 (paths are probed as the system calls see them)

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import hmac
import json
import os
import platform
import resource
import select
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Attempt = Callable[[], "tuple[bool, str]"]
NONCE = "/work/here"
LIMIT_S = 12
CONFIG: dict[str, Any] = {}
ATTEMPTS: dict[str, tuple[str, Attempt]] = {}

LIBC = ctypes.CDLL(None, use_errno=True)
HELD = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EROFS}
"""What a kernel answers where it does not even look at the arguments of a call."""
ARM = platform.machine() in ("aarch64", "arm64")
CALLS = {
    "keyctl": 219 if ARM else 250,
    "bpf": 280 if ARM else 321,
    "perf_event_open": 241 if ARM else 298,
    "settimeofday": 170 if ARM else 164,
    "open_by_handle_at": 265 if ARM else 304,
    "pivot_root": 41 if ARM else 155,
}


def attempt(group: str, name: str) -> Callable[[Attempt], Attempt]:
    """Register one."""

    def register(function: Attempt) -> Attempt:
        ATTEMPTS[name] = (group, function)
        return function

    return register


# --- the network


def connect(host: str, port: int, family: int = socket.AF_INET) -> tuple[bool, str]:
    """Reached where anybody answers, if only to refuse."""
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(2)
        try:
            sock.connect((host, port))
        except ConnectionRefusedError:
            # Nobody listens at loopback addresses of one's own; from a host, a refusal is an answer.
            return not host.startswith(("127.", "::1")), "refused, so somebody is there"
        except OSError as error:
            return False, errno.errorcode.get(error.errno or 0, str(error))
    return True, "connected"


for address, what in (
    ("169.254.169.254", "metadata of AWS, GCP, Azure"),
    ("169.254.170.2", "credentials of AWS containers"),
    ("168.63.129.16", "wire server of Azure"),
    ("100.100.100.200", "metadata of Alibaba"),
    ("203.0.113.7", "an address on the internet"),
):
    attempt("network", f"TCP to {what} ({address})")(lambda a=address: connect(a, 80))  # type: ignore[misc]
attempt("network", "IPv6 to the metadata of AWS (fd00:ec2::254)")(lambda: connect("fd00:ec2::254", 80, socket.AF_INET6))
attempt("network", "IPv6 to an address on the internet")(lambda: connect("2001:db8::7", 80, socket.AF_INET6))
attempt("network", "TCP to the host by the bridge's gateway")(lambda: connect(CONFIG["gateway"], 9))
attempt("network", "TCP to the host by docker0")(lambda: connect(CONFIG["docker0"], 9))
attempt("network", "TCP to a sibling by its address")(lambda: connect(CONFIG["sibling"], CONFIG["port"]))
attempt("network", "TCP port 53 outside")(lambda: connect("203.0.113.7", 53))


@attempt("network", "a UDP datagram out and an answer back")
def _udp() -> tuple[bool, str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(2)
        sock.sendto(b"ping", ("203.0.113.7", CONFIG["port"]))
        return sock.recv(16) == b"ping", "answered"


@attempt("network", "a name is resolved")
def _name() -> tuple[bool, str]:
    return True, str(socket.getaddrinfo("other-arm", 80)[0][4][0])


@attempt("network", "the engine's own resolver answers (127.0.0.11)")
def _resolver() -> tuple[bool, str]:
    question = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x09other-arm\x00\x00\x01\x00\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(2)
        sock.connect(("127.0.0.11", 53))
        sock.send(question)
        return sock.recv(512)[:2] == b"\x12\x34", "answered"


@attempt("network", "an interface beside the loopback")
def _interfaces() -> tuple[bool, str]:
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    return bool(names), " ".join(names)


@attempt("network", "a route to anywhere")
def _routes() -> tuple[bool, str]:
    lines = Path("/proc/net/route").read_text().splitlines()[1:]
    return bool(lines), f"{len(lines)} routes"


@attempt("network", "a neighbour's hardware address")
def _neighbours() -> tuple[bool, str]:
    connect(CONFIG["gateway"], 9)
    lines = Path("/proc/net/arp").read_text().splitlines()[1:]
    return bool(lines), f"{len(lines)} neighbours"


@attempt("network", "a raw socket")
def _raw() -> tuple[bool, str]:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return True, "made"


@attempt("network", "a packet socket that hears everything")
def _packet() -> tuple[bool, str]:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3).close()
    return True, "made"


@attempt("network", "an address added to an interface")
def _address() -> tuple[bool, str]:
    add_address("127.9.9.9", 9)
    return True, "added"


@attempt("network", "the engine's socket")
def _engine() -> tuple[bool, str]:
    for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(2)
            sock.connect(path)
            return True, path
    return False, "no socket"


def add_address(address: str, number: int) -> None:
    """Give the loopback one more address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sHH4s8x", f"lo:{number}".encode(), socket.AF_INET, 0, socket.inet_aton(address))
        fcntl.ioctl(sock, 0x8916, request)


def add_address6(address: str) -> None:
    """The same for version 6."""
    Path("/proc/sys/net/ipv6/conf/lo/disable_ipv6").write_text("0")
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, 0x8916, struct.pack("16sIi", socket.inet_pton(socket.AF_INET6, address), 128, 1))


# --- the other arm

KEY = 0x5CA1AB1E


@attempt("other arm", "its port on the loopback")
def _loopback() -> tuple[bool, str]:
    return connect("127.0.0.1", CONFIG["port"])


@attempt("other arm", "its abstract socket")
def _abstract() -> tuple[bool, str]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(2)
        sock.connect("\0other-arm")
    return True, "connected"


@attempt("other arm", "its abstract socket in /proc/net/unix")
def _unix_list() -> tuple[bool, str]:
    return "@other-arm" in Path("/proc/net/unix").read_text(), "listed"


@attempt("other arm", "its socket in a folder")
def _path_socket() -> tuple[bool, str]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(2)
        sock.connect("/dev/shm/other-arm.sock")
    return True, "connected"


@attempt("other arm", "its shared memory as a file")
def _shm_file() -> tuple[bool, str]:
    return Path("/dev/shm/other-arm").read_text() == CONFIG["canaries"]["arm"], "read"


@attempt("other arm", "its shared memory of System V")
def _shm() -> tuple[bool, str]:
    found = LIBC.shmget(KEY, 64, 0)
    return found >= 0, f"segment {found}"


@attempt("other arm", "its message queue of System V")
def _msg() -> tuple[bool, str]:
    return LIBC.msgget(KEY, 0) >= 0, "found"


@attempt("other arm", "its semaphores of System V")
def _sem() -> tuple[bool, str]:
    return LIBC.semget(KEY, 1, 0) >= 0, "found"


@attempt("other arm", "its POSIX message queue")
def _mq() -> tuple[bool, str]:
    return LIBC.mq_open(b"/other-arm", os.O_RDONLY) >= 0, "opened"


@attempt("other arm", "its files, anywhere in the file system")
def _arm_files() -> tuple[bool, str]:
    return found_in_files("arm")


@attempt("other arm", "its files by way of its processes")
def _arm_root() -> tuple[bool, str]:
    for pid in processes():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/root/work/other-arm").read_text() == CONFIG["canaries"]["arm"]:
                return True, f"process {pid}"
    return False, "none"


@attempt("other arm", "its command lines")
def _arm_argv() -> tuple[bool, str]:
    return found_in_processes("cmdline", "argv")


@attempt("other arm", "its environment")
def _arm_environ() -> tuple[bool, str]:
    return found_in_processes("environ", "arm")


@attempt("other arm", "a signal to a process of another user")
def _signal() -> tuple[bool, str]:
    os.kill(1, 0)
    return True, "could have been sent"


# --- keys


@attempt("keys", "in the own environment")
def _env() -> tuple[bool, str]:
    return any(CONFIG["canaries"]["key"] in value for value in os.environ.values()), "there"


@attempt("keys", "a variable that is named like a key")
def _env_names() -> tuple[bool, str]:
    names = [name for name in os.environ if any(word in name for word in ("KEY", "TOKEN", "SECRET", "PROXY"))]
    return bool(names), " ".join(names)


@attempt("keys", "in the environment of any process")
def _environs() -> tuple[bool, str]:
    return found_in_processes("environ", "key")


@attempt("keys", "in the command line of any process")
def _cmdlines() -> tuple[bool, str]:
    return found_in_processes("cmdline", "key")


@attempt("keys", "the environment of somebody else's process")
def _their_environ() -> tuple[bool, str]:
    return of_strangers(lambda pid: len(Path(f"/proc/{pid}/environ").read_bytes()) > 0)


@attempt("keys", "the memory of somebody else's process")
def _their_memory() -> tuple[bool, str]:
    return of_strangers(lambda pid: openable(f"/proc/{pid}/mem", flags=os.O_RDONLY)[0])


@attempt("keys", "the open files of somebody else's process")
def _their_files() -> tuple[bool, str]:
    return of_strangers(lambda pid: bool(os.listdir(f"/proc/{pid}/fd")))


@attempt("keys", "the root of somebody else's process")
def _their_root() -> tuple[bool, str]:
    return of_strangers(lambda pid: bool(os.listdir(f"/proc/{pid}/root/")))


@attempt("keys", "in any file")
def _key_files() -> tuple[bool, str]:
    return found_in_files("key")


@attempt("keys", "credentials of the gate's own user, in any file")
def _credentials() -> tuple[bool, str]:
    return found_in_files("credential")


@attempt("keys", "the session's key ring of the kernel")
def _keyring() -> tuple[bool, str]:
    return kernel(LIBC.syscall(CALLS["keyctl"], 0, -3, 0))


# --- what judges

for canary, thing in (
    ("eval", "the eval file"),
    ("truth", "the ground truth of a check"),
    ("expectation", "an expectation"),
    ("history", "the history of the repository"),
    ("neighbour", "another skill"),
    ("policy", "the gate's policy"),
    ("bundle", "the record of another run"),
    ("skill", "the skill under test, from the baseline"),
):
    attempt("what judges", f"{thing}, in any file")(lambda c=canary: found_in_files(c))  # type: ignore[misc]


@attempt("what judges", "a repository's .git folder")
def _git() -> tuple[bool, str]:
    places = [path for path in FOLDERS if path.endswith("/.git")]
    return bool(places), " ".join(places)


@attempt("what judges", "a write into the folder of skills")
def _write_skill() -> tuple[bool, str]:
    return written("/skills/forged")


@attempt("what judges", "a change of the file that proves the collection")
def _sentinel() -> tuple[bool, str]:
    return written("/work/.skill-gate/sentinel")


# --- what an earlier case left

for place in ("/tmp", "/work", "/dev/shm", "/var/tmp", "/usr/local/bin", "/root", "/run"):
    attempt("residue", f"a file that an earlier case left in {place}")(
        lambda p=place: found_in_files("residue", under=p)  # type: ignore[misc]
    )


@attempt("residue", "a process that an earlier case left")
def _left_process() -> tuple[bool, str]:
    return found_in_processes("cmdline", "residue")


# --- the container itself

attempt("container", "a write into /etc")(lambda: written("/etc/forged"))
attempt("container", "a write into /usr/bin")(lambda: written("/usr/bin/forged"))
attempt("container", "a write into /")(lambda: written("/forged"))


def status(name: str) -> str:
    """A line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))


@attempt("container", "user root")
def _root() -> tuple[bool, str]:
    return os.getuid() == 0 or os.getgid() == 0, f"uid {os.getuid()}"


@attempt("container", "becoming root by asking")
def _become_root() -> tuple[bool, str]:
    os.setuid(0)
    return os.getuid() == 0, "uid 0"


@attempt("container", "a capability in effect")
def _effective() -> tuple[bool, str]:
    return int(status("CapEff"), 16) != 0, status("CapEff")


@attempt("container", "a capability within reach")
def _bounding() -> tuple[bool, str]:
    return int(status("CapBnd"), 16) != 0, status("CapBnd")


@attempt("container", "new privileges by a program")
def _new_privileges() -> tuple[bool, str]:
    return status("NoNewPrivs") != "1", status("NoNewPrivs")


@attempt("container", "no filter of system calls")
def _seccomp() -> tuple[bool, str]:
    return status("Seccomp") != "2", status("Seccomp")


@attempt("container", "setuid programs count where one can write")
def _setuid() -> tuple[bool, str]:
    loose = [path for path in ("/work", "/tmp", "/dev/shm") if not os.statvfs(path).f_flag & os.ST_NOSUID]
    return bool(loose), " ".join(loose)


@attempt("container", "a setuid program of root in the image")
def _setuid_program() -> tuple[bool, str]:
    for folder in os.environ["PATH"].split(":"):
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                if entry.stat().st_mode & stat.S_ISUID:
                    return True, entry.path
    return False, "none"


@attempt("container", "a device node that is made")
def _node() -> tuple[bool, str]:
    for folder in ("/work", "/tmp", "/dev"):
        with contextlib.suppress(OSError):
            os.mknod(f"{folder}/probe-node", stat.S_IFCHR | 0o600, os.makedev(1, 3))
            os.unlink(f"{folder}/probe-node")
            return True, folder
    return False, "none"


@attempt("container", "a block device of the host")
def _block() -> tuple[bool, str]:
    for folder in ("/dev", "/host-dev"):
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                if stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode):
                    return True, entry.path
    return False, "none"


@attempt("container", "the kernel's log as a device")
def _kmsg() -> tuple[bool, str]:
    return openable("/dev/kmsg", "/host-dev/kmsg")


@attempt("container", "a device that makes networks or file systems (tun, fuse)")
def _makers() -> tuple[bool, str]:
    return openable("/dev/net/tun", "/dev/fuse", "/host-dev/net/tun", "/host-dev/fuse")


@attempt("container", "a mount of the host's")
def _mounts() -> tuple[bool, str]:
    known = {
        "/", "/proc", "/dev", "/sys", "/tmp", "/run", "/work", "/skills", "/oracle",
        "/etc/resolv.conf", "/etc/hostname", "/etc/hosts",
    }  # fmt: skip
    inside = ("/proc/", "/sys/", "/dev/", "/sbin/docker-init", "/usr/sbin/docker-init")
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    strange = [point for point in points if point not in known and not point.startswith(inside)]
    return bool(strange), " ".join(strange)


# --- the kernel


def kernel(result: int) -> tuple[bool, str]:
    """Reached where a call succeeded or the kernel got as far as its arguments."""
    number = ctypes.get_errno()
    if result != -1:
        return True, "succeeded"
    return number not in HELD, errno.errorcode.get(number, str(number))


@attempt("kernel", "mount")
def _mount() -> tuple[bool, str]:
    return kernel(LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None))


@attempt("kernel", "a user namespace of one's own")
def _userns() -> tuple[bool, str]:
    return kernel(LIBC.unshare(0x10000000))


@attempt("kernel", "a mount namespace of one's own")
def _mntns() -> tuple[bool, str]:
    return kernel(LIBC.unshare(0x00020000))


@attempt("kernel", "the namespaces of somebody else's process")
def _setns() -> tuple[bool, str]:
    return of_strangers(lambda pid: LIBC.setns(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY), 0) == 0)


@attempt("kernel", "chroot")
def _chroot() -> tuple[bool, str]:
    os.chroot("/tmp")
    return True, "changed"


@attempt("kernel", "pivot_root")
def _pivot() -> tuple[bool, str]:
    return kernel(LIBC.syscall(CALLS["pivot_root"], b"/no", b"/no"))


@attempt("kernel", "a BPF map")
def _bpf() -> tuple[bool, str]:
    return kernel(LIBC.syscall(CALLS["bpf"], 0, None, 0))


@attempt("kernel", "performance events")
def _perf() -> tuple[bool, str]:
    return kernel(LIBC.syscall(CALLS["perf_event_open"], None, 0, -1, -1, 0))


@attempt("kernel", "files by handle, past the mounts")
def _handle() -> tuple[bool, str]:
    return kernel(LIBC.syscall(CALLS["open_by_handle_at"], -1, None, 0))


@attempt("kernel", "every access to files, as a listener")
def _fanotify() -> tuple[bool, str]:
    return kernel(LIBC.fanotify_init(0, 0))


@attempt("kernel", "swap space")
def _swap() -> tuple[bool, str]:
    return kernel(LIBC.swapon(None, 0))


@attempt("kernel", "the clock of the machine")
def _clock() -> tuple[bool, str]:
    return kernel(LIBC.syscall(CALLS["settimeofday"], None, None))


@attempt("kernel", "the host name")
def _hostname() -> tuple[bool, str]:
    socket.sethostname(socket.gethostname())
    return True, "set"


@attempt("kernel", "its log")
def _log() -> tuple[bool, str]:
    return kernel(LIBC.klogctl(10, None, 0))


@attempt("kernel", "a better place in the queue of processes")
def _nice() -> tuple[bool, str]:
    os.setpriority(os.PRIO_PROCESS, 0, -5)
    return True, "taken"


for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory"):
    # Opened for writing, and nothing is written: as root this is the machine's own.
    attempt("kernel", f"{path} for writing")(lambda p=path: openable(p, flags=os.O_WRONLY))  # type: ignore[misc]


@attempt("kernel", "/sys for writing")
def _sys() -> tuple[bool, str]:
    return not os.statvfs("/sys").f_flag & os.ST_RDONLY, "writable"


@attempt("kernel", "control groups for writing")
def _cgroups() -> tuple[bool, str]:
    for folder in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory"):
        for name in ("cgroup.procs", "memory.limit_in_bytes", "memory.max"):
            if os.access(f"{folder}/{name}", os.W_OK):
                return True, f"{folder}/{name}"
    return False, "none"


for path in ("/proc/keys", "/proc/timer_list"):
    attempt("kernel", path)(lambda p=path: (bool(Path(p).read_bytes()), "read"))  # type: ignore[misc]


# --- limits


def limit(*paths: str) -> int | None:
    """A limit of the control group; None: none."""
    for path in paths:
        with contextlib.suppress(OSError):
            text = Path(path).read_text().strip()
            return int(text) if text.isdigit() and int(text) < 1 << 50 else None
    return None


@attempt("limits", "memory without end")
def _memory() -> tuple[bool, str]:
    found = limit("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
    return found is None, str(found)


@attempt("limits", "processes without end")
def _pids() -> tuple[bool, str]:
    found = limit("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")
    return found is None, str(found)


@attempt("limits", "processor time without end")
def _cpu() -> tuple[bool, str]:
    with contextlib.suppress(OSError):
        text = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return text[0] == "max", text[0]
    for folder in ("cpu", "cpu,cpuacct"):
        with contextlib.suppress(OSError):
            text = Path(f"/sys/fs/cgroup/{folder}/cpu.cfs_quota_us").read_text().split()
            return text[0] == "-1", text[0]
    return True, "no control group"


@attempt("limits", "a workspace of the host's whole disk")
def _disk() -> tuple[bool, str]:
    seen = os.statvfs("/work")
    size = seen.f_blocks * seen.f_frsize
    return size > 1 << 30, f"{size >> 20} MiB"


@attempt("limits", "files without number")
def _inodes() -> tuple[bool, str]:
    return os.statvfs("/work").f_files > 100_000, str(os.statvfs("/work").f_files)


@attempt("limits", "a file of any length")
def _fsize() -> tuple[bool, str]:
    return resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY, "unlimited"


@attempt("limits", "core dumps")
def _core() -> tuple[bool, str]:
    return resource.getrlimit(resource.RLIMIT_CORE)[1] != 0, "allowed"


# --- helpers

TEXTS: dict[str, list[str]] = {}
FOLDERS: list[str] = []
PRUNED = ("/proc", "/sys", "/host-dev", "/usr/lib", "/usr/share", "/usr/bin", "/usr/sbin", "/lib", "/bin", "/sbin")


def search_files() -> None:
    """Once: which of the texts lies in which files. What a stranger may not read is passed over."""
    wanted = {name: text.encode() for name, text in CONFIG["canaries"].items()}
    for folder, below, names in os.walk("/"):
        below[:] = [name for name in below if os.path.join(folder, name) not in PRUNED]
        FOLDERS.extend(os.path.join(folder, name) for name in below)
        if folder == "/dev":
            below[:] = [name for name in below if name in ("shm", "mqueue")]
        for name in names:
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if not stat.S_ISREG(os.lstat(path).st_mode) or os.path.getsize(path) > 2_000_000:
                    continue
                data = Path(path).read_bytes()
                for key, text in wanted.items():
                    if text in data:
                        TEXTS.setdefault(key, []).append(path)


def found_in_files(name: str, under: str = "/") -> tuple[bool, str]:
    """Whether a text was found in any file below a folder."""
    places = [path for path in TEXTS.get(name, []) if path.startswith(under)]
    return bool(places), " ".join(places[:3]) or "nowhere"


def processes() -> Iterator[int]:
    """All that can be seen but this one."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())


def of_strangers(reach: Callable[[int], bool]) -> tuple[bool, str]:
    """Whether something can be had of any process of another user; to root every process is somebody else's."""
    said = "there is none"
    for pid in processes():
        try:
            if (os.getuid() == 0 or os.stat(f"/proc/{pid}").st_uid != os.getuid()) and pid != os.getppid():
                said = "nothing"
                if reach(pid):
                    return True, f"process {pid}"
        except OSError as error:
            said = errno.errorcode.get(error.errno or 0, str(error))
    return False, said


def found_in_processes(what: str, name: str) -> tuple[bool, str]:
    """Whether a text is in a file of any process in /proc."""
    for pid in processes():
        with contextlib.suppress(OSError):
            if CONFIG["canaries"][name].encode() in Path(f"/proc/{pid}/{what}").read_bytes():
                return True, f"process {pid}"
    return False, "none"


def written(path: str) -> tuple[bool, str]:
    """Whether a file can be written."""
    Path(path).write_text("forged")
    return True, "written"


def openable(*paths: str, flags: int = os.O_RDONLY | os.O_NONBLOCK) -> tuple[bool, str]:
    """Whether one of several files can be opened."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.close(os.open(path, flags))
            return True, path
    return False, "none"


def guarded(function: Attempt) -> tuple[bool, str]:
    """An attempt that fails with an error has not reached anything."""
    try:
        return function()
    except (OSError, ValueError, StopIteration) as error:
        number = getattr(error, "errno", None)
        return False, errno.errorcode.get(number, str(error)[:60]) if number else str(error)[:60]


def alone(function: Attempt) -> tuple[bool, str]:
    """Each in a process of its own, with a deadline: what it changes about itself is gone afterwards."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        answer = guarded(function)
        os.write(theirs, json.dumps(answer).encode()[:4000])
        os._exit(0)
    os.close(theirs)
    ready = select.select([ours], [], [], LIMIT_S)[0]
    data = os.read(ours, 4096) if ready else b""
    os.close(ours)
    with contextlib.suppress(OSError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not data:
        return False, "ended without an answer" if ready else "no answer in time"
    reached, said = json.loads(data)
    return bool(reached), str(said)


def main(config: dict[str, Any]) -> None:
    """Run them all; one line of JSON each."""
    CONFIG.update(config)
    CONFIG["canaries"] = {name: text[::-1] for name, text in config["canaries"].items()}
    nonce = Path(NONCE).read_bytes()
    search_files()
    for name, (group, function) in ATTEMPTS.items():
        reached, said = alone(function)
        mark = hmac.new(nonce, name.encode(), hashlib.sha256).hexdigest()
        sys.stdout.write(
            json.dumps({"group": group, "name": name, "reached": reached, "said": said, "mark": mark}) + "\n"
        )


# --- the other side: what there is to be found


def other_arm(config: dict[str, Any]) -> None:
    """Offer everything that a neighbour could be reached by. Says ``ready`` and stays."""
    canary = config["canaries"]["arm"][::-1]
    for folder in ("/work", "/dev/shm", "/tmp"):
        Path(f"{folder}/other-arm").write_text(canary)
    for number, address in enumerate(
        ("169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "203.0.113.7"), 1
    ):
        with contextlib.suppress(OSError):
            add_address(address, number)
    for address in ("fd00:ec2::254", "2001:db8::7"):
        with contextlib.suppress(OSError):
            add_address6(address)
    kept: list[socket.socket] = []
    for family, host, port in (
        (socket.AF_INET, "0.0.0.0", config["port"]),
        (socket.AF_INET, "0.0.0.0", 80),
        (socket.AF_INET, "203.0.113.7", 53),
        (socket.AF_INET6, "::", 80),
    ):
        with contextlib.suppress(OSError):
            sock = socket.socket(family, socket.SOCK_STREAM)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((host, port))
            sock.listen(64)
            kept.append(sock)
    for place in ("\0other-arm", "/dev/shm/other-arm.sock"):
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(place)
        sock.listen(64)
        kept.append(sock)
    LIBC.shmget(KEY, 64, 0o1666)
    LIBC.msgget(KEY, 0o1666)
    LIBC.semget(KEY, 1, 0o1666)
    LIBC.mq_open(b"/other-arm", os.O_RDWR | os.O_CREAT, 0o666, None)
    echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    echo.bind(("0.0.0.0", config["port"]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        data, sender = echo.recvfrom(64)
        echo.sendto(data, sender)


def earlier_case(config: dict[str, Any]) -> None:
    """Leave something behind wherever that is allowed; says where."""
    text = config["canaries"]["residue"][::-1]
    for folder in ("/tmp", "/work", "/dev/shm", "/var/tmp", "/usr/local/bin", "/root", "/run"):
        with contextlib.suppress(OSError):
            Path(f"{folder}/left-here").write_text(text)
            sys.stdout.write(f"{folder}\n")
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.execv("/bin/sh", ["/bin/sh", "-c", "sleep 300; exit 0", text])
