"""summary.py RESULTS BUILD: reads the results folder of scripts/test and the build folders: where the time went, what was
skipped and why, what passed at the second try only, what failed, and the last line, `N passed, N failed` if there were tests."""

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

SLOWEST = 10

Test = tuple[str, str, float, str, str]


def read_tests(results: pathlib.Path) -> list[Test]:
    """(preset, test, seconds, status, why it was skipped) of every test of ctest, and of the programs that were run without it
    (sanitized_ROOM); status is run, fail, skipped, notrun or disabled."""
    tests = []
    for path in sorted(results.glob("*.xml")):
        preset, _, room = path.stem.partition("_")
        preset = preset.partition("-")[0]  # tests of a preset run in parts
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            if case.get("result") == "suppressed":  # filtered out or disabled
                continue
            name, folder = case.get("name", "?"), case.get("classname", "")
            if room:
                name = f"{room}/{folder}.{name}"
            elif folder not in ("", name):  # pytest: the module and the test
                name = f"{folder.rpartition('.')[2]}/{name}"
            status = case.get("status", "run")  # pytest tells no status of what passed
            if case.find("failure") is not None or case.find("error") is not None:
                status = "fail"
            elif case.find("skipped") is not None and status != "fail":
                status = "skipped"
            reason = skip_reason(case) if status in ("skipped", "disabled") else ""
            tests.append((preset, name, float(case.get("time", 0)), status, reason))
    return tests


def skip_reason(case: ElementTree.Element) -> str:
    """What pytest says in the element; GoogleTest below a line "FILE:LINE: Skipped"; our commands behind "skipped: ". Else nothing."""
    skipped = case.find("skipped")
    told = skipped.get("message", "") if skipped is not None else ""
    output = case.findtext("system-out") or ""
    found = re.search(r": Skipped\n(.+)|^skipped: (.+)", output, flags=re.M)
    if found:
        return (found[1] or found[2]).strip()
    return "" if told.startswith("SKIP_") else " ".join(told.split())  # ctest's own word for it


def read_stages(results: pathlib.Path) -> list[tuple[str, str, int]]:
    """(verdict, name, seconds) of every stage, in the order they ran."""
    path = results / "stages.tsv"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(verdict, name, int(seconds)) for verdict, name, seconds in (line.split("\t") for line in lines)]


def read_second_tries(results: pathlib.Path) -> list[str]:
    """Tests that failed and then passed (ctest's --repeat until-pass), which JUnit files do not tell, from ctest's output."""
    tries = []
    for path in sorted(results.glob("*.txt")):
        verdicts: dict[str, list[str]] = collections.defaultdict(list)
        for test, verdict in re.findall(r"Test +#\d+: (.+?) \.{2,}\s*(Passed|[^*\n]*\*\*\*\w+)", path.read_text(errors="replace")):
            verdicts[test].append(verdict)
        tries += [test for test, told in verdicts.items() if told[0] != "Passed" and told[-1] == "Passed"]
    return tries


def read_units(build: pathlib.Path, since: float) -> list[tuple[str, str, float]]:
    """(preset, unit, seconds) of every file that ninja compiled or linked after `since`, from its logs."""
    units = []
    for log in build.glob("*/.ninja_log"):
        if log.stat().st_mtime < since:
            continue
        for line in log.read_text().splitlines()[1:]:
            begin, end, modified, name = line.split("\t")[:4]
            if int(modified) / 1e9 >= since and not name.startswith("/"):
                short = re.sub(r"^(?:src|tests|bench)/|CMakeFiles/|Unity/unity_|_cxx\.cxx|\.dir|\.o$", "", name)
                units.append((log.parent.name, short, (int(end) - int(begin)) / 1000))
    return units


def print_units(units: list[tuple[str, str, float]]) -> None:
    if not units:
        return
    print("\nslowest build units")
    for preset, unit, seconds in sorted(units, key=lambda unit: -unit[2])[:SLOWEST]:
        print(f"  {seconds:8.2f} s  {preset:5}  {unit}")


def print_skipped(stages: list[tuple[str, str, int]], tests: list[Test]) -> None:
    """Skipped stages, and tests by the reason that they gave."""
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    for verdict, name, _ in stages:
        if verdict == "skipped":
            reasons["the stage says why above"].append(name)
    for preset, test, _, status, reason in tests:
        if status in ("skipped", "disabled"):
            reasons[reason or "no reason given"].append(f"{preset}: {test}")
    if not reasons:
        return
    print(f"\nskipped: {sum(map(len, reasons.values()))}")
    for reason, names in sorted(reasons.items()):
        print(f"  {reason}")
        for name in names:
            print(f"    {name}")


def print_second_tries(tries: list[str]) -> None:
    if not tries:
        return
    print("\npassed at the second try")
    for test in tries:
        print(f"  {test}")


def print_times(stages: list[tuple[str, str, int]], tests: list[Test]) -> None:
    print("\nwhere the time goes")
    for verdict, name, seconds in stages:
        print(f"  {seconds:6d} s  {name}{'' if verdict == 'passed' else ' (' + verdict + ')'}")
    if not tests:
        return
    rooms: dict[tuple[str, str], float] = collections.defaultdict(float)
    for preset, test, seconds, *_ in tests:
        rooms[preset, test.split("/")[0]] += seconds
    print("\ntests by room")
    for (preset, room), seconds in sorted(rooms.items(), key=lambda item: -item[1])[:SLOWEST]:
        print(f"  {seconds:8.2f} s  {preset:5}  {room}")
    print("\nslowest tests")
    for preset, test, seconds, *_ in sorted(tests, key=lambda test: -test[2])[:SLOWEST]:
        print(f"  {seconds:8.2f} s  {preset:5}  {test}")


def main() -> int:
    results = pathlib.Path(sys.argv[1])
    stages, tests = read_stages(results), read_tests(results)
    print_times(stages, tests)
    print_units(read_units(pathlib.Path(sys.argv[2]), (results / "begin").stat().st_mtime))

    failed = [f"{preset}: {test}" for preset, test, _, status, _ in tests if status not in ("run", "skipped", "disabled")]
    # A stage that ran tests is told by its tests; a build or a check that failed counts as one failure.
    failed += [name for verdict, name, _ in stages if verdict == "failed" and "tests" not in name]
    broken = any(verdict == "failed" for verdict, _, _ in stages)
    if broken and not failed:
        failed = [name for verdict, name, _ in stages if verdict == "failed"]
    passed = sum(status == "run" for _, _, _, status, _ in tests)
    print_skipped(stages, tests)
    print_second_tries(read_second_tries(results))
    if failed:
        print("\nfailed")
        for name in failed:
            print(f"  {name}")
    if tests or failed:
        print(f"\n{passed} passed, {len(failed)} failed")
    else:
        print("\nno test was to run; every stage passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
