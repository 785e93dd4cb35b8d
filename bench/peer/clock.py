"""Timing of one step function over a slice of seconds, and what is kept of it."""

import statistics
import time

WARM_UP_STEPS = 3
WARM_UP_SECONDS = 0.1  # a step that takes longer is warm after one


def percentile(values: list, share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def time_slice(step, seconds: float) -> dict:
    """Median and p10 of the step in ms over about `seconds`; the first steps warm caches and are not counted."""
    warm = time.perf_counter() + WARM_UP_SECONDS
    for i in range(WARM_UP_STEPS):
        if i == 0 or time.perf_counter() < warm:
            step()
    times = []
    end = time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        step()
        stop = time.perf_counter()
        times.append((stop - start) * 1e3)
        if stop >= end:
            break
    return {"step_ms": statistics.median(times), "p10_ms": percentile(times, 0.1), "steps": len(times)}
