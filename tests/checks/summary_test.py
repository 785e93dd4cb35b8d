#!/usr/bin/env python3
"""The summary of scripts/test: what failed, what was skipped and why, and how it ends."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SUMMARY = pathlib.Path(__file__).parents[2] / "scripts/lib/summary.py"
PASSED = '<testcase classname="t" name="passes" time="0.1"/>'
PYTEST = '<testcase classname="python.tests.test_torch" name="test_both" time="0"><skipped type="pytest.skip" message="torch is not installed">f:1: torch</skipped></testcase>'
GTEST = """<testcase name="data/Hdf5.Reads" status="notrun" time="0"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>[ RUN      ] Hdf5.Reads
/src/hdf5_test.cpp:10: Skipped
no HDF5 here
[  SKIPPED ] Hdf5.Reads</system-out></testcase>"""
COMMAND = """<testcase name="capi/java" status="notrun" time="0"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>skipped: no JDK</system-out></testcase>"""
FAILED = '<testcase classname="t" name="fails" time="0"><failure message="no"/></testcase>'


# What ctest tells of tests that get a second try.
TRIES = """1/3 Test #1: cli/Waits.Late .....***Failed    0.01 sec
1/3 Test #2: cli/Waits.Broken ...***Timeout   0.00 sec
    Test #1: cli/Waits.Late .....   Passed    0.01 sec
    Test #2: cli/Waits.Broken ...***Failed    0.01 sec
3/4 Test #3: cli/Waits.Good .....   Passed    0.01 sec
4/4 Test #4: cli/Waits.Died .....Subprocess aborted***Exception:   0.01 sec
    Test #4: cli/Waits.Died .....   Passed    0.01 sec
"""


def summary_of(stages="", told="", **files):
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder)
        (results / "begin").touch()
        (results / "stages.tsv").write_text(stages)
        (results / "ci-waits.txt").write_text(told)
        for name, cases in files.items():
            (results / f"{name}.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")
        done = subprocess.run([sys.executable, str(SUMMARY), folder, folder], capture_output=True, text=True)
        assert done.stderr == "", done.stderr
        return done.returncode, done.stdout


class Summary(unittest.TestCase):
    def test_names_and_reasons_of_what_was_skipped(self):
        code, told = summary_of("skipped\tfresh\t1\n", python=[PASSED, PYTEST], ci=[GTEST, COMMAND])
        self.assertEqual(code, 0)
        self.assertIn("\nskipped: 4\n", told)
        self.assertIn("  torch is not installed\n    python: test_torch/test_both\n", told)
        self.assertIn("  no HDF5 here\n    ci: data/Hdf5.Reads\n", told)
        self.assertIn("  no JDK\n    ci: capi/java\n", told)
        self.assertIn("\n    fresh\n", told)
        self.assertTrue(told.endswith("1 passed, 0 failed\n"), told)

    def test_nothing_skipped_is_not_told(self):
        code, told = summary_of(python=[PASSED])
        self.assertEqual(code, 0)
        self.assertNotIn("skipped", told)

    def test_what_failed_is_named_and_ends_it(self):
        code, told = summary_of("failed\tbuild ci\t5\n", python=[PASSED, FAILED])
        self.assertEqual(code, 1)
        self.assertIn("  python: t/fails\n", told)
        self.assertIn("  build ci\n", told)
        self.assertTrue(told.endswith("1 passed, 2 failed\n"), told)

    def test_what_passed_at_the_second_try_is_named(self):
        _, told = summary_of(told=TRIES, python=[PASSED])
        self.assertIn("passed at the second try\n  cli/Waits.Late\n  cli/Waits.Died\n\n", told)
        self.assertNotIn("Broken", told)
        self.assertNotIn("Good", told)
        _, told = summary_of(python=[PASSED])
        self.assertNotIn("second try", told)


if __name__ == "__main__":
    unittest.main()
