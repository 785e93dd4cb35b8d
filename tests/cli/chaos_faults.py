"""Other processes, found and disturbed: what chaos.py does to the ranks of a run, and what no run may leave behind."""

import ctypes
import os
import pathlib
import signal
import socket
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)


class Skipped(Exception):
    """This machine does not allow the fault."""


class Failed(Exception):
    """What the run did is not what it should."""


def threads_named(pid, name):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            if (task / "comm").read_text().strip() == name:
                found.append(int(task.name))
        except OSError:  # it has ended
            continue
    return found


def ptrace(request, tid):
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, tid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


class StoppedThread:
    """Lets one thread of another process stand still. All requests must come from one thread of this one."""

    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, tid, seconds):
        self.error = None
        self._thread = threading.Thread(target=self._hold, args=(tid, seconds), daemon=True)
        self._thread.start()

    def _hold(self, tid, seconds):
        try:
            ptrace(self.SEIZE, tid)
            ptrace(self.INTERRUPT, tid)
            os.waitpid(tid, self.WALL)
            time.sleep(seconds)
            ptrace(self.DETACH, tid)
        except OSError as error:
            self.error = error

    def join(self):
        self._thread.join(30)


def shut_one_link(pid, dice):
    """Shuts one of the process's TCP connections down; false if it has none."""
    pidfd = os.pidfd_open(pid)
    try:
        descriptors = sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
        dice.shuffle(descriptors)
        for number in descriptors:
            try:
                if not os.readlink(f"/proc/{pid}/fd/{number}").startswith("socket:"):
                    continue
                copy = libc.syscall(438, pidfd, number, 0)  # pidfd_getfd
                if copy < 0:
                    raise Skipped("connections of other processes cannot be reached (ptrace)")
                link = socket.socket(fileno=copy)
                with link:
                    if link.family not in (socket.AF_INET, socket.AF_INET6) or link.type != socket.SOCK_STREAM:
                        continue
                    link.getpeername()
                    link.shutdown(socket.SHUT_RDWR)
                return True
            except OSError:  # it has closed, or listens
                continue
        return False
    finally:
        os.close(pidfd)


FLOOD = "so it goes on and on and on "


def words(log):
    """What the run itself has said."""
    return "\n".join(line for _, line in log.lines if FLOOD not in line)


def flood(pid):
    try:
        with open(f"/proc/{pid}/fd/2", "wb", buffering=0) as out:
            for _ in range(400):
                out.write(FLOOD.encode() * 70 + b"\n")
    except OSError:
        pass


def family_of(pid):
    """The process, those of its session (mpirun gives every rank a process group of its own), and all their children."""
    session, parent = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:  # it has ended
            continue
        if fields and fields[0] != "Z":  # that one waits for its parent alone: after mpirun that is process 1, when it likes
            parent[int(entry.name)], session[int(entry.name)] = int(fields[1]), int(fields[3])
    found = {one for one in session if one == pid or session[one] == pid}
    while more := {one for one in parent if parent[one] in found} - found:
        found |= more
    return found


def kill_family(process):
    """Kills a process that was started in a session of its own, with everything it has started, and waits for it."""
    for pid in family_of(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def expect_nobody_left(process):
    """A run that has ended leaves no process behind."""
    end = time.monotonic() + 1  # for one that is ending
    while left := family_of(process.pid) - {process.pid}:
        if time.monotonic() > end:
            raise Failed(f"left processes {sorted(left)}")
        time.sleep(0.02)


def memory_left(before):
    """Files of shared memory that were not there before and that no process has mapped."""
    new = {name for name in os.listdir("/dev/shm") if not name.startswith("vader_segment")} - before  # those are Open MPI's
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            text = maps.read_text() if new else ""
        except OSError:  # it has ended
            continue
        new -= {name for name in new if f"/dev/shm/{name}" in text}
    return sorted(new)
