"""Runs a program whose calls that may wait for the kernel's lock of all interfaces take long while there is a file: as if somebody held
that lock. Each exchange of BPF programs at interfaces (BPF_LINK_UPDATE) takes as many seconds as the file's first number says. Each socket
for questions by generic netlink takes as many as its second one says: of two, one asks about an interface. Only this program waits, and
the machine goes on.

  python3 -c "$(cat held_links.py)" FILE PROGRAM ARGUMENT...

The kernel asks a child of this process about each such call (seccomp's user notification), which lets it go on in the end.
"""

import ctypes
import fcntl
import os
import select
import struct
import sys
import threading
import time

SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
SYS_SOCKET = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
SYS_PIDFD_OPEN, SYS_PIDFD_GETFD = 434, 438
BPF_LINK_UPDATE = 29
AF_NETLINK, NETLINK_GENERIC = 16, 16
SET_MODE_FILTER, NEW_LISTENER = 1, 8
USER_NOTIF, ALLOW = 0x7FC00000, 0x7FFF0000
# _IOWR('!', 0, 80 octets) and _IOWR('!', 1, 24 octets).
NOTIF_RECV, NOTIF_SEND = 0xC0502100, 0xC0182101
CONTINUE = 1

libc = ctypes.CDLL(None, use_errno=True)


def system(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(of) for of in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return result


def install():
    """The filter for this process and what it becomes. Returns where its calls are asked about."""
    def load(offset):
        return struct.pack("HBBI", 0x20, 0, 0, offset)

    def unless(value, further):
        return struct.pack("HBBI", 0x15, 0, further, value)

    def answer(value):
        return struct.pack("HBBI", 0x06, 0, 0, value)

    # seccomp_data: nr 4 | arch 4 | instruction pointer 8 | arguments, 8 each.
    rules = [load(0), unless(SYS_BPF, 3), load(16), unless(BPF_LINK_UPDATE, 1), answer(USER_NOTIF)]
    rules += [load(0), unless(SYS_SOCKET, 5), load(16), unless(AF_NETLINK, 3), load(32), unless(NETLINK_GENERIC, 1)]
    rules += [answer(USER_NOTIF), answer(ALLOW)]
    code = ctypes.create_string_buffer(b"".join(rules))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(code)))
    return system(SYS_SECCOMP, SET_MODE_FILTER, NEW_LISTENER, ctypes.addressof(program))


def watch(listener, held):
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    # It hangs up when the program has ended.
    while waiting.poll()[0][1] & select.POLLIN:
        asked = bytearray(80)
        try:
            fcntl.ioctl(listener, NOTIF_RECV, asked)
        except OSError:
            continue
        # The threads of the program do not wait for each other here.
        threading.Thread(target=let_go, args=(listener, held, asked), daemon=True).start()


def let_go(listener, held, asked):
    # identity 8 | thread 4 | flags 4 | number 4
    identity, number = struct.unpack_from("Q8xi", asked)
    try:
        with open(held) as file:
            time.sleep(float(file.read().split()[number == SYS_SOCKET]))
    except FileNotFoundError:
        pass
    try:
        fcntl.ioctl(listener, NOTIF_SEND, struct.pack("QqiI", identity, 0, 0, CONTINUE))
    except OSError:
        pass


held, command = sys.argv[1], sys.argv[2:]
numbers, ready = os.pipe(), os.pipe()
if os.fork() == 0:
    os.setsid()
    os.close(numbers[1])
    program = system(SYS_PIDFD_OPEN, os.getppid(), 0)
    listener = system(SYS_PIDFD_GETFD, program, int(os.read(numbers[0], 16)), 0)
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    os.write(ready[1], b".")
    os.close(ready[1])
    watch(listener, held)
    os._exit(0)
listener = install()
os.write(numbers[1], str(listener).encode())
os.read(ready[0], 1)
os.close(listener)
os.execvp(command[0], command)
