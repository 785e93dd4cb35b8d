"""What this process holds: pages, and blocks of Python's own allocator."""

import gc
import os
import sys
import time

import pytest

# Set by scripts/test --stage python_asan: the library is one of the sanitizers, which keep freed memory for a while.
SANITIZED = bool(os.environ.get("STARLING_SANITIZED"))


def resident():
    """Bytes of this process that lie in memory."""
    if SANITIZED:
        pytest.skip("a sanitizer keeps memory that was freed")
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def blocks():
    """Small pieces of memory that Python objects lie in."""
    gc.collect()
    return sys.getallocatedblocks()


def threads():
    """Threads of this process, the library's included."""
    return len(os.listdir("/proc/self/task"))


def settled(count, expected, seconds=20):
    """The count, once it is no more than expected or the time is over: what was told to end may still be ending."""
    until = time.monotonic() + seconds
    while (now := count()) > expected and time.monotonic() < until:
        time.sleep(0.02)
    return now
