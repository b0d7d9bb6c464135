"""A seccomp filter for untrusted programs, built as classic BPF and installed with prctl; works under any engine.

It denies what a program that computes an answer never needs and what has carried attacks: tracing and reading other
processes, new namespaces and mounts, kernel keyrings, BPF, io_uring, userfaultfd, perf, System V IPC and message queues
(both outlive a process), memory files (no limit counts them), and every socket family but AF_UNIX. A denied call fails
with EPERM; `clone3` fails with ENOSYS, so that the C library falls back to `clone`, whose flags can be inspected.
"""

import ctypes
import os
import struct

_EPERM, _ENOSYS = 1, 38
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*

# name -> number on x86_64, on aarch64 (None: it does not exist there)
_DENIED: dict[str, tuple[int, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "unshare": (272, 97), "setns": (308, 268),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429),
    "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "shmdt": (67, 197), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264), "fanotify_init": (300, 262), "lookup_dcookie": (212, 18),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "personality": (135, 92), "iopl": (172, None),
    "ioperm": (173, None), "modify_ldt": (154, None), "uselib": (134, None), "vhangup": (153, 58),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "memfd_create": (319, 279),
    "mbind": (237, 235), "set_mempolicy": (238, 237),
}  # fmt: skip
_SOCKET, _CLONE, _CLONE3 = (41, 198), (56, 220), (435, 435)
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def build(machine: str) -> bytes | None:
    """The filter as bytes, or None where this processor's system call numbers are not known here."""
    if machine not in _ARCHITECTURES:
        return None
    audit, column = _ARCHITECTURES[machine]
    deny, allow = _op(_RETURN, _ERRNO | _EPERM), _op(_RETURN, _ALLOW)
    code = [_op(_LOAD, 4), _op(_EQUAL, audit, 1, 0), deny, _op(_LOAD, 0)]
    if machine == "x86_64":  # the x32 numbers are other names for the same calls
        code += [_op(0x35, 0x40000000, 0, 1), deny]
    for numbers in _DENIED.values():
        number = numbers[column]
        if number is not None:
            code += [_op(_EQUAL, number, 0, 1), deny]
    code += [_op(_EQUAL, _CLONE3[column], 0, 1), _op(_RETURN, _ERRNO | _ENOSYS)]
    code += [_op(_EQUAL, _CLONE[column], 0, 4), _op(_LOAD, 16), _op(_ANY_BIT, _NEW_NAMESPACES, 0, 1), deny, allow]
    code += [_op(_EQUAL, _SOCKET[column], 0, 4), _op(_LOAD, 16), _op(_EQUAL, 1, 1, 0), deny, allow]
    return b"".join([*code, allow])


def number_of_clone() -> int:
    """The number of the system call `clone` on this processor.

    Raises:
        OSError: It is not known here.
    """
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        raise OSError(f"programs cannot be run on the processor {machine}")
    return _CLONE[_ARCHITECTURES[machine][1]]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


class Filter:
    """A filter ready to install: everything that needs memory or imports was done before the fork."""

    def __init__(self) -> None:
        self.code = build(os.uname().machine)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._buffer = ctypes.create_string_buffer(self.code or b"")
        self._program = _Program(len(self.code or b"") // 8, ctypes.addressof(self._buffer))

    def install(self) -> None:
        """Restrict this process and what it starts, for ever.

        Raises:
            OSError: The kernel refused.
        """
        no_new_privileges, seccomp, filter_mode = 38, 22, 2
        if self._libc.prctl(no_new_privileges, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "no_new_privs")
        if self._libc.prctl(seccomp, filter_mode, ctypes.byref(self._program), 0, 0):
            raise OSError(ctypes.get_errno(), "seccomp")

    def set_dumpable(self, flag: bool) -> None:
        """PR_SET_DUMPABLE: whether processes of the same user may read this one under /proc."""
        self._libc.prctl(4, int(flag), 0, 0, 0)
