#!/usr/bin/env python3
"""Disturbs real runs at random moments: none may stand still beyond the deadline, every error names a rank and a cause, and every
run in deterministic mode ends, after the same command has resumed it, with the weights of one that nobody disturbed.

  chaos.py build/ci/bin/starling --seed 1 --runs 20     # as ctest does
  chaos.py build/ci/bin/starling --seed 7 --runs 300    # by hand
  chaos.py build/ci/bin/starling --seed 17 --runs 1     # repeats run 17
  chaos.py build/ci/bin/starling --strategies ssp,poseidon --faults kill,stop --runs 40

Each run is a function of its seed: how ranks are started, the strategy, the fault, its victim and its moment. Faults:
kill (SIGKILL), stop (SIGSTOP for good), pause (SIGSTOP for a moment), pause_all (all ranks for longer than three
heartbeats), interrupt and terminate (SIGINT and SIGTERM, of the whole job), slow_disk (the threads that save stand still for
longer than the deadline), full_disk (a tiny tmpfs in a user namespace, which grows before the job resumes), link (one of the
victim's TCP connections is shut down), chatty (a rank's stderr is flooded). Moments: while ranks join, while they train,
while a checkpoint is written, while they evaluate, while they end. No run may leave a process or shared memory, and with
parameter servers each portion must have come to every key once. What this machine does not allow, or what came after
the end of the run, is told and is no run.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import kills_test as kills
from chaos_faults import (
    Failed,
    Skipped,
    StoppedThread,
    expect_nobody_left,
    flood,
    kill_family,
    memory_left,
    shut_one_link,
    threads_named,
    words,
)
from chaos_plan import (
    DEADLINE,
    FAULTS,
    HEARTBEAT,
    JOB,
    NEED_ALL,
    PICTURES,
    SIGNALS,
    SLACK,
    STEPS,
    STRATEGIES,
    STREAM,
    Tally,
    deadline_of,
    quiet_within,
    write_tables,
)

PATIENCE = 120.0  # for a run that goes on
EPOCHS = 12
INTERRUPTED = 130  # code of a run that has been asked to end
CAUSES = re.compile(
    r"was killed by SIG|has been silent|no progress|is lost|has died|lost its connection|exited on signal|closed|"
    r"No space left|exited with code|aborted|Connection reset|was lost|lost 127"
)


class Chaos:
    def __init__(self, program, folder, epochs):
        self.program = program
        self.folder = folder
        self.epochs = epochs
        kills.write_images(folder, "train", 24 * STEPS)
        kills.write_images(folder, "t10k", 480)
        write_tables(folder)
        self.hosts = None
        self.quiet = None
        self.lasted = 1.0

    def job(self, name, strategy):
        file = self.folder / f"{name}.yaml"
        text = ((STREAM if strategy == "streamed" else PICTURES) + JOB).format(
            data=self.folder,
            run=self.folder / name,
            epochs=self.epochs,
            heartbeat=HEARTBEAT,
            deadline=deadline_of(strategy),
            strategy=STRATEGIES[strategy][0] + (f", servers: {STRATEGIES[strategy][2]}" if STRATEGIES[strategy][2] else ""),
        )
        file.write_text(text)
        return str(file)

    def summary(self, name):
        return json.loads((self.folder / name / "summary.json").read_text())

    def undisturbed(self):
        if self.quiet is None:
            command = [self.program, "train", self.job("quiet", "deterministic"), "--progress", "off"]
            began = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.lasted = time.monotonic() - began
            if done.returncode != 0:
                raise Failed(f"the undisturbed run fails:\n{done.stderr}")
            self.quiet = self.summary("quiet")
        return self.quiet

    def command(self, plan, job):
        if plan.over == "threads":
            workers = str(plan.ranks - plan.servers)
            return [self.program, "train", job, "--set", f"distribute.workers={workers}", "--progress", "off"]
        if plan.over == "mpi":
            start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(plan.ranks)]
            return start + [self.program, "train", job, "--progress", "off"]
        launch = [self.program, "launch", "-n", str(plan.ranks - plan.servers)]
        if plan.servers:
            launch += ["--servers", str(plan.servers)]
        return launch + self.transport(plan) + [job, "--progress", "off"]

    def transport(self, plan):
        if plan.over != "hosts":
            return ["--backend", plan.over]
        file, shell = self.folder / f"hosts{plan.ranks}", self.folder / "shell"
        file.write_text(f"localhost slots=1\nbeta slots={plan.ranks - 1}\n")
        if not shell.exists():
            shell.write_text('#!/bin/sh\nexport STARLING_HOST="$1"\nshift\nexec /bin/sh -c "$*"\n')
            shell.chmod(0o755)
        return ["--hosts", str(file), "--ssh", str(shell), "--address", "127.0.0.1"]

    def environment(self, plan):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("STARLING_", "OMPI_", "PMI"))}
        if plan.over == "mpi":
            clean["STARLING_BACKEND"] = "mpi"
        return clean

    def start(self, plan, command):
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self.environment(plan),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        return process, kills.Log(process)

    def processes(self, plan, started, job):
        """Process ids by rank; threads are all in one."""
        if plan.over == "threads":
            return {rank: started.pid for rank in range(plan.ranks)}
        variable = "OMPI_COMM_WORLD_RANK" if plan.over == "mpi" else "STARLING_RANK"
        return kills.rank_processes(job, (variable,))

    def log_of(self, name):
        """Step and name of the last event in the run's log; 0 and nothing before there is one."""
        try:
            with open(self.folder / name / "log.jsonl", "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
                lines = file.read().split(b"\n")[:-1]
            last = json.loads(lines[-1])
            return last.get("step", 0), last.get("event", "")
        except (OSError, ValueError, IndexError):
            return 0, ""

    def has_come(self, plan, name):
        """Whether the moment of the fault, but for its share, is now."""
        folder = self.folder / name
        if plan.moment == "joining":
            return True
        if plan.moment == "saving":
            saved = folder / "checkpoints"
            return saved.is_dir() and any(".tmp" in entry.name for entry in saved.iterdir())
        step, event = self.log_of(name)
        if plan.moment == "training":
            return step > 0
        if plan.moment == "evaluating":
            return step > 0 and step % plan.per_epoch == 0 and event not in ("eval", "epoch")
        return step >= self.epochs * plan.per_epoch

    def await_moment(self, plan, process, job, name):
        """Process ids by rank once the moment of the fault has come; none: the run has ended before."""
        end = time.monotonic() + PATIENCE
        found, due = {}, time.monotonic()
        first = plan.dice.randrange(self.epochs // 2) if plan.moment in ("saving", "evaluating") else 0
        while time.monotonic() < end and process.poll() is None:
            if len(found) < plan.ranks and time.monotonic() >= due:
                found = self.processes(plan, process, job)
                due = time.monotonic() + 0.01
            there = plan.victim in found if plan.moment == "joining" else len(found) == plan.ranks
            if there and self.log_of(name)[0] >= first * plan.per_epoch and self.has_come(plan, name):
                lasts = {"joining": 0.3, "training": self.lasted, "saving": 0.005, "evaluating": 0.01, "ending": 0.1}
                time.sleep(plan.share * lasts[plan.moment])
                return found if process.poll() is None else None
            time.sleep(0.0005)
        return None

    def disturb(self, plan, process, found):
        """Makes the fault."""
        victim = found[plan.victim]
        everybody = sorted(set(found.values()))

        def send(what, to):
            for pid in to:
                try:
                    os.kill(pid, what)
                except ProcessLookupError:
                    pass

        if plan.fault == "kill":
            send(signal.SIGKILL, [victim])
        if plan.fault == "stop":
            send(signal.SIGSTOP, [victim])
            if plan.over == "threads":  # nobody is left to notice
                time.sleep(4 * HEARTBEAT)
                send(signal.SIGCONT, [victim])
        if plan.fault == "pause":
            send(signal.SIGSTOP, [victim])
            time.sleep(HEARTBEAT / 2)
            send(signal.SIGCONT, [victim])
        if plan.fault == "pause_all":
            send(signal.SIGSTOP, everybody)
            time.sleep(4 * HEARTBEAT)
            send(signal.SIGCONT, everybody)
        if plan.fault in SIGNALS:
            send(SIGNALS[plan.fault], [process.pid])
        if plan.fault == "chatty":
            flood(victim)
        if plan.fault == "link" and not shut_one_link(victim, plan.dice):
            raise Skipped("the victim has no connection")
        if plan.fault == "slow_disk":
            self.hold_savers(plan, process, found[0])

    def hold_savers(self, plan, process, pid):
        held = [StoppedThread(tid, 1.5 * DEADLINE) for tid in threads_named(pid, "starling-saver")]
        time.sleep(0.1)
        if not held:
            if process.poll() is not None or self.log_of(f"run{plan.seed}")[0] >= self.epochs * plan.per_epoch:
                raise Skipped("ended before the fault")
            raise Failed("found no thread that saves, which could be slowed")
        if held[0].error:
            raise Skipped(f"threads of other processes cannot be held ({held[0].error})")
        for one in held:
            one.join()

    def in_small_disk(self, command, name):
        """The command with a run folder that is nearly full, and once more when there is room. Its code is that of the second
        time; the first one's is told."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        words = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
        if subprocess.run([*words, f"mount -t tmpfs tmpfs '{folder}'"], capture_output=True, check=False).returncode:
            raise Skipped("no tmpfs in a user namespace here")
        script = (
            f"mount -t tmpfs -o size=192k tmpfs '{folder}' || exit 99; \"$@\"; echo \"chaos: ended with $?\"; "
            f"mount -o remount,size=64m '{folder}' || exit 99; \"$@\"; code=$?; "
            f"cp '{folder}/summary.json' '{folder}.summary.json'; exit $code"
        )
        return [*words, script, "sh", *command]

    def signs(self, log, name):
        """What changes while a run goes on."""
        try:
            size = (self.folder / name / "log.jsonl").stat().st_size
        except OSError:
            size = 0
        return size, len(log.lines), self.log_of(name)

    def end(self, plan, process, log, name, limit, what):
        """Waits for the end: until then, or as long as signs of progress come within the deadline."""
        began = moved = time.monotonic()
        last = None
        while process.poll() is None:
            now, sign = time.monotonic(), self.signs(log, name)
            if sign != last:
                last, moved = sign, now
            if now - began > (limit or PATIENCE) or now - moved > quiet_within(plan):
                kill_family(process)
                raise Failed(f"{what}: not ended after {now - began:.0f} s, no sign for {now - moved:.0f} s\n{words(log)}")
            time.sleep(0.02)
        log.close()
        return process.returncode

    def run(self, plan):
        """One disturbed run and its resumptions. Returns what happened, in a few words."""
        name = f"run{plan.seed}"
        job = self.job(name, plan.strategy)
        command = self.command(plan, job)
        if plan.fault == "full_disk":
            return self.run_on_full_disk(plan, command, name)
        process, log = self.start(plan, command)
        try:
            found = self.await_moment(plan, process, job, name)
            if found is None:
                raise Skipped("ended before the fault")
            plan.late |= self.log_of(name)[0] >= self.epochs * plan.per_epoch
            self.disturb(plan, process, found)
            disturbed = time.monotonic()
            # A run that fails does so within the deadline; one that goes on may take its time, but must not stand still.
            ends = (plan.kills and not plan.spared) or plan.fault in SIGNALS
            limit = (quiet_within(plan) if plan.moment == "joining" else deadline_of(plan.strategy) + SLACK) if ends else None
            code = self.end(plan, process, log, name, limit, "the disturbed run")
            expect_nobody_left(process)
        finally:
            kill_family(process)
        told = self.judge(plan, log, code, time.monotonic() - disturbed)
        if code == 0:
            self.check_portions(plan, name)
        self.resume(plan, command, name)
        return told

    def judge(self, plan, log, code, seconds):
        if plan.fault in SIGNALS:
            if code == 0 and seconds < 0.5:
                raise Skipped("ended before the fault")
            # A program that is not yet listening is ended by the signal itself.
            expected = {INTERRUPTED, *([0] if plan.late else []), *([-SIGNALS[plan.fault]] if plan.moment == "joining" else [])}
            if code not in expected and not (plan.over == "mpi" and code > 0):  # mpirun has a code of its own
                raise Failed(f"expected code {INTERRUPTED}, got {code}\n{words(log)}")
            return f"ended after {seconds:.1f} s"
        if plan.fault in ("pause", "pause_all", "chatty", "slow_disk") and code != 0:
            raise Failed(f"expected the run to go on, got code {code}\n{words(log)}")
        if plan.kills and code == 0 and not plan.spared and not plan.late:
            raise Failed(f"expected a failure, got code 0\n{words(log)}")
        if code == 0 or (plan.over == "threads" and plan.fault == "kill"):
            return "went on"
        self.check_words(plan, words(log), code)
        return f"failed after {seconds:.1f} s, named"

    def run_on_full_disk(self, plan, command, name):
        command = ["plain" if word == "off" else word for word in command]  # its log lies on that disk, out of our sight
        process, log = self.start(plan, self.in_small_disk(command, name))
        try:
            code = self.end(plan, process, log, name, PATIENCE, "the run on a full disk")
        finally:
            kill_family(process)
        before, mark, _ = words(log).partition("chaos: ended with ")
        first = int(words(log)[len(before) + len(mark) :].split()[0]) if mark else code
        if code == 99 or not mark:
            raise Failed(f"could not be tried, code {code}\n{words(log)}")
        self.check_words(plan, before, first)
        if code != 0:
            raise Failed(f"the resumed run ends with code {code}\n{words(log)}")
        shutil.copy(self.folder / f"{name}.summary.json", self.folder / name / "summary.json")
        self.check_summary(plan, name)
        return f"code {first}, named, and went on"

    def check_words(self, plan, text, code):
        if not re.search(r"\brank \d", text):
            raise Failed(f"code {code}, but no rank is named\n{text}")
        if not CAUSES.search(text):
            raise Failed(f"code {code}, but no cause is told\n{text}")
        if plan.moment == "joining" and re.search(
            rf"(ranks? \d+ (is|are) missing: (\d+, )*|not there: rank ){plan.victim}\b", text
        ):
            return  # it is not there yet, so that only those who wait for it can speak
        server = plan.victim - (plan.ranks - plan.servers)
        if plan.moment == "joining" and plan.strategy == "spare_servers" and f"answer of server {server} to a hello" in text:
            return  # its backup takes its place once it has been met
        if plan.kills and plan.over in ("shared", "gloo", "hosts"):
            names = [line for line in text.splitlines() if re.match(r"starling: (\w+( \d+)?, )?rank \d", line)]
            if not names or not re.match(rf"starling: (\w+( \d+)?, )?rank {plan.victim} ", names[0]):
                raise Failed(f"expected rank {plan.victim} in the headline, got {names}\n{text}")
        if plan.kills and plan.over == "mpi" and plan.moment != "joining" and not re.search(rf"\b(rank|server|worker) {plan.victim}\b", text):
            raise Failed(f"expected a word about rank {plan.victim}\n{text}")

    def resume(self, plan, command, name):
        process, log = self.start(plan, command)
        try:
            code = self.end(plan, process, log, name, None, "the resumed run")
            expect_nobody_left(process)
        finally:
            kill_family(process)
        if code != 0:
            raise Failed(f"the resumed run ends with code {code}\n{words(log)}")
        self.check_summary(plan, name)

    def check_portions(self, plan, name):
        """Every portion since the run last began is on every key of the servers, and none of them twice."""
        if plan.servers == 0 or plan.strategy in NEED_ALL or plan.strategy == "sandblaster":  # which counts evaluations
            return
        own = self.summary(name)
        events = [json.loads(line) for line in (self.folder / name / "log.jsonl").read_text().splitlines()]
        begun = [event["step"] for event in events if event["event"] == "begin"][-1]
        if begun == own["steps"]:
            return  # it had ended before
        counters = own["ranks"][0]["counters"]
        parts = 2 if plan.strategy == "kvstore" else plan.ranks - plan.servers  # of a batch: one for each group or worker
        expected = (own["steps"] - begun) * parts * counters["servers.keys"]
        if counters["servers.portions"] != expected:
            raise Failed(f"expected {expected:g} portions on keys, got {counters['servers.portions']:g}")

    def check_summary(self, plan, name):
        quiet, own = self.undisturbed(), self.summary(name)
        if own["steps"] != self.epochs * plan.per_epoch:
            raise Failed(f"expected {self.epochs * plan.per_epoch} steps, got {own['steps']}")
        if plan.strategy == "deterministic" and own["weights_hash"] != quiet["weights_hash"]:
            raise Failed(f"expected weights {quiet['weights_hash']} of the undisturbed run, got {own['weights_hash']}")
        if plan.fault != "full_disk":  # whose log is gone with the disk
            self.check_portions(plan, name)
        shutil.rmtree(self.folder / name, ignore_errors=True)


def ways_here(program, asked):
    doctor = subprocess.run([program, "doctor"], capture_output=True, text=True, check=False).stdout
    ways = ["threads", "shared"]
    if re.search(r"(?mi)^ranks .*\bgloo\b", doctor):
        ways += ["gloo", "hosts"]
    if shutil.which("mpirun") and re.search(r"(?m)^ranks .*\bMPI\b", doctor):
        ways.append("mpi")
    return [way for way in ways if not asked or way in asked]


def disturb_runs(chaos, tally):
    again = " ".join([f"--over {way}" for way in tally.options.over or []])
    if len(tally.options.strategies) < len(STRATEGIES):
        again += " --strategies " + ",".join(tally.options.strategies)
    while (plan := tally.next()) is not None:
        try:
            tally.count(plan, chaos.run(plan))
        except Skipped as why:
            tally.skip(str(why))
        except Failed as why:
            repeat = f"{sys.argv[0]} {tally.options.program} --seed {plan.seed} --runs 1 {again}"
            tally.count(plan, f"FAILED: {why}\nrepeat it: {repeat}", failed=True)


def among(known):
    """Type of an option: names of these, with commas between them."""

    def read(text):
        names = text.split(",")
        if wrong := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}, got {', '.join(wrong)}")
        return names

    return read


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--over", action="append", help="only ranks started so: threads, shared, gloo, hosts, mpi")
    parser.add_argument("--faults", type=among(FAULTS), default=FAULTS, help="only these faults, as kill,stop")
    parser.add_argument("--strategies", type=among(sorted(STRATEGIES)), default=sorted(STRATEGIES), help="only these, as ssp,zero")
    parser.add_argument("--within", type=float, help="seconds that all runs together may take")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time; most of a run is waiting")
    options = parser.parse_args()
    program = str(options.program.resolve())
    tally = Tally(options, ways_here(program, options.over))
    began = time.monotonic()
    memory = set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory(prefix="starling-chaos-") as folder:
        chaos = Chaos(program, pathlib.Path(folder), options.epochs)
        chaos.undisturbed()
        threads = [threading.Thread(target=disturb_runs, args=(chaos, tally)) for _ in range(options.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    failed, took = len(tally.failed), time.monotonic() - began
    print(f"{tally.done} runs in {took:.0f} s, {failed} failed {tally.failed or ''}")
    print(f"no runs: {tally.skipped or 'none'}")
    if left := memory_left(memory):
        print(f"FAILED: left in /dev/shm: {left}")
        failed += 1
    if options.within and took > options.within:
        print(f"FAILED: expected all runs within {options.within:g} s, got {took:.0f} s")
        failed += 1
    return 1 if failed or tally.done < options.runs else 0


if __name__ == "__main__":
    sys.exit(main())
