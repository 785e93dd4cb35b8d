"""What bench/strategies.py makes of a run's own counters."""

import pathlib
import sys
import types
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import strategies  # noqa: E402

ARGS = types.SimpleNamespace(batch=64, workers=4)


def summary(steps, counters):
    return {"steps": steps}, [{"counters": counters, "left_out": 0}] + [{"counters": {}, "left_out": 0}] * 3


def counted(name, steps, counters):
    whole, ranks = summary(steps, counters)
    return strategies.counts(name, whole, ranks, ARGS)


class Counts(unittest.TestCase):
    SERVERS = {"servers.keys": 8, "servers.updates": 8 * 100, "servers.late": 8 * 5, "servers.repeated_portions": 0,
               "servers.staleness.0": 300, "servers.staleness.2": 100, "servers.staleness.largest": 2}

    def test_updates_are_those_that_servers_made_of_each_key(self):
        told = counted("async", 25, self.SERVERS)
        self.assertEqual(told["updates"], 100)
        self.assertEqual(told["staleness"], 0.5)
        self.assertEqual(told["staleness_largest"], 2)

    def test_late_pushes_are_samples_that_were_not_used(self):
        told = counted("sync_server, 1 backup", 100, self.SERVERS)
        self.assertEqual(told["late"], 5 * 64 / 4)
        self.assertEqual(told["unused"], 5 * 16 / (100 * 64))
        self.assertEqual(counted("sync_server", 100, {**self.SERVERS, "servers.late": 0})["unused"], 0)

    def test_a_push_of_a_group_stands_for_all_its_members(self):
        self.assertEqual(counted("async, groups of 2", 25, self.SERVERS)["late"], 5 * 64 / 2)

    def test_a_step_of_a_procedure_is_an_update(self):
        procedure = {"servers.keys": 8, "servers.updates": 0, "procedure.evaluations": 9,
                     "servers.portions_duplicated": 3}
        told = counted("sandblaster", 4, procedure)
        self.assertEqual((told["updates"], told["unused"], told["evaluations"]), (4, 0, 9))

    def test_without_servers_the_strategy_counts(self):
        told = counted("backup_workers", 100, {"late_samples": 320})
        self.assertEqual((told["updates"], told["late"], told["unused"]), (100, 320, 320 / 6400))


if __name__ == "__main__":
    unittest.main()
