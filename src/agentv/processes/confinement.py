"""What the kernel can do to confine a script: Landlock, a seccomp filter, and namespaces.

Used by `helper.py` inside the processes that become scripts. Like it, this file imports no other module of agentv.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.syscall.restype = ctypes.c_long


def prctl(option: int, value: int) -> int:
    return _checked(_libc.prctl(option, value, 0, 0, 0), f"prctl {option}")


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result


# -- Landlock

LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
ACCESS_FS_MAKE_BLOCK, ACCESS_FS_REFER = 1 << 11, 1 << 13
SCOPE_ABSTRACT_UNIX_SOCKET, SCOPE_SIGNAL = 1 << 0, 1 << 1


def landlock_abi() -> int | None:
    """The Landlock version of this kernel; None without Landlock."""
    abi: int = _libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return abi if abi > 0 else None


def landlock_ruleset(abi: int) -> int:
    """A ruleset with as few restrictions of files as Landlock allows. What matters is the domain: processes in a domain
    cannot read the memory or environment of processes outside it, and from version 6 on cannot send them signals.

    From version 6 on, a domain does not need file rules. Before that, any file rule also forbids moving files between
    directories unless this is explicitly allowed, which version 1 does not support.
    """
    if abi >= 6:
        rules = (ctypes.c_uint64 * 3)(0, 0, SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL)
    else:
        rules = (ctypes.c_uint64 * 3)(ACCESS_FS_REFER if abi >= 2 else ACCESS_FS_MAKE_BLOCK)
    size = ctypes.c_size_t(24 if abi >= 6 else 8)
    ruleset = _checked(_libc.syscall(LANDLOCK_CREATE_RULESET, rules, size, ctypes.c_uint32(0)), "landlock")
    if 2 <= abi < 6:
        root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        everywhere = ACCESS_FS_REFER.to_bytes(8, sys.byteorder) + root.to_bytes(4, sys.byteorder)
        _checked(_libc.syscall(LANDLOCK_ADD_RULE, ruleset, 1, everywhere, 0), "landlock")
        os.close(root)
    return ruleset


# -- seccomp

SECCOMP_SET_MODE_FILTER, SECCOMP_GET_ACTION_AVAIL, SECCOMP_FILTER_FLAG_SPEC_ALLOW = 1, 2, 1 << 2
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
"""Verdicts of the filter: allow, EPERM and ENOSYS."""
X32 = 0x40000000
"""On x86-64, calls with this bit set are the same calls with 32-bit pointers."""
ARCHITECTURES: dict[str, tuple[int, dict[int, tuple[int, tuple[int, ...]]]]] = {
    # By machine: the number of `seccomp`, and for each kind of program that the machine can run (as in `audit.h`) the
    # number of `prlimit64`, and those of ptrace, process_vm_readv, process_vm_writev, kcmp and pidfd_getfd.
    "x86_64": (317, {0xC000003E: (302, (101, 310, 311, 312, 438)), 0x40000003: (340, (26, 347, 348, 349, 438))}),
    "aarch64": (277, {0xC00000B7: (261, (117, 270, 271, 272, 438)), 0x40000028: (369, (26, 376, 377, 378, 438))}),
}
OWN_PID = 0xFFFFFFFF
"""Stands for the pid of the process that installs the filter."""
_ARGUMENTS = 16
"""Offset of the arguments in `struct seccomp_data`, 8 bytes each."""


def seccomp_works() -> bool:
    """Whether a filter exists for this architecture and the kernel accepts filters."""
    if os.uname().machine not in ARCHITECTURES or sys.maxsize < 1 << 32 or sys.byteorder != "little":
        return False
    seccomp, _ = ARCHITECTURES[os.uname().machine]
    action = ctypes.c_uint32(REFUSE & 0xFFFF0000)
    return bool(_libc.syscall(seccomp, SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0)


class Filter:
    """A filter that refuses system calls which reach into other processes. Build it once, and install it after forks.

    `prlimit64` may read any limits, and set those of the caller (0) and of the process that installs the filter.
    """

    def __init__(self) -> None:
        self._call, kinds = ARCHITECTURES[os.uname().machine]
        program = _program(kinds)
        self._program = ctypes.create_string_buffer(
            b"".join(
                code.to_bytes(2, "little") + bytes((yes, no)) + value.to_bytes(4, "little")
                for code, yes, no, value in program
            )
        )
        self._own_pid_at = [8 * place + 4 for place, (_, _, _, value) in enumerate(program) if value == OWN_PID]
        self._header = len(program).to_bytes(8, "little") + ctypes.addressof(self._program).to_bytes(8, "little")
        # Without this flag, kernels before 5.16 slow the script down in case it attacks itself.
        self._arguments = (ctypes.c_uint(SECCOMP_SET_MODE_FILTER), ctypes.c_uint(SECCOMP_FILTER_FLAG_SPEC_ALLOW))

    def install(self) -> None:
        pid = os.getpid().to_bytes(4, "little")
        for place in self._own_pid_at:
            ctypes.memmove(ctypes.addressof(self._program) + place, pid, 4)
        _checked(_libc.syscall(self._call, *self._arguments, self._header), "seccomp")


def _program(kinds: dict[int, tuple[int, tuple[int, ...]]]) -> list[tuple[int, int, int, int]]:
    """The filter as instructions: operation, how many to skip if a comparison is true and if it is false, value."""
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    program = [(load, 0, 0, 4)]
    for kind, (prlimit, refused) in kinds.items():
        block = [(load, 0, 0, 0), (at_least, 0, 1, X32), (give, 0, 0, UNKNOWN)]
        for number in refused:
            block += [(equal, 0, 1, number), (give, 0, 0, REFUSE)]
        block += [
            (equal, 1, 0, prlimit),
            (give, 0, 0, ALLOW),
            (load, 0, 0, _ARGUMENTS),  # the process; the kernel uses the lower half only
            (equal, 5, 0, 0),
            (equal, 4, 0, OWN_PID),
            (load, 0, 0, _ARGUMENTS + 2 * 8),  # the new limit, both halves of the pointer
            (equal, 0, 3, 0),
            (load, 0, 0, _ARGUMENTS + 2 * 8 + 4),
            (equal, 0, 1, 0),
            (give, 0, 0, ALLOW),
            (give, 0, 0, REFUSE),
        ]
        program += [(equal, 0, len(block), kind), *block]
    return [*program, (give, 0, 0, REFUSE)]


def enter_domain(ruleset: int, calls: Filter | None) -> None:
    """Confine this process and its descendants for good: processes outside become inaccessible, where possible."""
    if ruleset >= 0 or calls is not None:
        prctl(PR_SET_NO_NEW_PRIVS, 1)
    if ruleset >= 0:
        _checked(_libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0), "landlock")
    if calls is not None:
        calls.install()


# -- namespaces

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_SLAVE = 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 19


def fork_into_namespaces() -> int:
    """Fork a child that is the first process of new PID and mount namespaces: when it ends, the kernel kills the rest.

    Returns its pid here and 0 in the child. An unprivileged user also needs a new user namespace, in which the user
    keeps its id; root does not, because it would lose its rights there. Raises OSError when the kernel refuses.
    """
    reader, writer = os.pipe()
    try:
        between = os.fork()  # only the children of a process can be in its new PID namespace
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if between == 0:
        child, problem = -1, 0
        try:
            _unshare()
            child = os.fork()
            if child > 0:
                os.write(writer, b"%d" % child)
        except OSError as error:
            problem = error.errno or 1
        finally:
            if child != 0:
                os._exit(problem)
        os.close(reader)
        os.close(writer)
        return 0
    os.close(writer)
    pid = os.read(reader, 32)
    os.close(reader)
    problem = os.waitpid(between, 0)[1] >> 8
    if not pid:
        raise OSError(problem or 1, "namespaces")
    return int(pid)


def _unshare() -> None:
    user, group = os.getuid(), os.getgid()
    flags = CLONE_NEWPID | CLONE_NEWNS | (CLONE_NEWUSER if user else 0)
    prctl(PR_SET_DUMPABLE, 1)  # or the files below belong to root
    _checked(_libc.unshare(flags), "unshare")
    if user:
        for name, text in (
            ("setgroups", b"deny"),
            ("uid_map", b"%d %d 1" % (user, user)),
            ("gid_map", b"%d %d 1" % (group, group)),
        ):
            file = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
            os.write(file, text)
            os.close(file)
    prctl(PR_SET_DUMPABLE, 0)


def mount_proc() -> None:
    """Replace /proc by one that shows the processes of this PID namespace, for this mount namespace only."""
    _checked(_libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_SLAVE), None), "mount")
    _checked(_libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(MS_NOSUID | MS_NODEV | MS_NOEXEC), None), "mount")


def own_pids(birth: int) -> range:
    """Pids for the scripts of one supervisor in its own PID namespace, where the kernel would always start with 2.

    Programs use their pid in the names of temporary files. So the pids of scripts that run at the same time must
    differ, and should not be used again soon. `birth` is the number of the supervisor. Children of a script get the
    pids after its own.
    """
    with open("/proc/sys/kernel/pid_max", "rb") as file:  # noqa: PTH123
        most = int(file.read())
    first, step, scripts = (most // 2, 32, 32) if most >= 1 << 20 else (1000, 8, 16)
    start = first + birth % max(1, (most - first) // (step * scripts)) * step * scripts
    return range(start, start + step * scripts, step)


def signal_descriptor(number: int) -> int:
    """A descriptor that is readable when this process has received the signal, which must be blocked."""
    signals = (ctypes.c_ulong * 16)(1 << (number - 1))
    return _checked(_libc.signalfd(-1, signals, os.O_NONBLOCK | os.O_CLOEXEC), "signalfd")
