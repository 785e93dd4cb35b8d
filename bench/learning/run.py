"""Trains the language models and spelling to sounds with Starling and with PyTorch, and prints both beside each other.

    python run.py --starling build/release/bin/starling --seeds 1 2 3 --threads 2
    python run.py --table RESULTS.jsonl

Results are appended to --results as they come, and what is there already is not done again.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
# job → the PyTorch script, its option and the job's key for the data, the metric of the table
JOBS = {
    "char_gpt": ("char_model.py", "text", "files", "perplexity"),
    "char_lstm": ("char_model.py", "text", "files", "perplexity"),
    "g2p": ("spelling.py", "dictionary", "file", "word_accuracy"),
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starling", help="the program")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--sides", nargs="+", choices=["starling", "pytorch"], default=["starling", "pytorch"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--text", nargs="+", help="files of the character models instead of the jobs'")
    parser.add_argument("--dictionary", help="instead of the job's")
    parser.add_argument("--set", action="append", default=[], help="a value of all jobs, for both sides: train.steps=20")
    parser.add_argument("--folder", default="runs/learning", help="of the runs")
    parser.add_argument("--results", help="JSON lines; FOLDER/results.jsonl unless given")
    parser.add_argument("--table", nargs="+", help="only print the table of these results")
    args = parser.parse_args()
    if not args.table and not args.starling:
        parser.error("expected --starling PROGRAM or --table FILE, got neither")
    return args


def settings(job, args):
    _, option, key, _ = JOBS[job]
    given = getattr(args, option)
    values = args.set + ([f"data.{key}={json.dumps(given)}"] if given else [])
    return [str(EXAMPLES / f"{job}.yaml")] + [part for value in values for part in ("--set", value)]


def train_starling(job, seed, args):
    folder = Path(args.folder) / f"{job}_{seed}"
    begin = time.monotonic()
    subprocess.run([args.starling, "train", *settings(job, args), "--set", f"train.seed={seed}", "--set",
                    f"train.folder={folder}", "--set", f"distribute.threads={args.threads}", "--resume", "none",
                    "--progress", "plain"], check=True, stdout=sys.stderr)
    seconds = time.monotonic() - begin
    summary = json.loads((folder / "summary.json").read_text())
    found = {name.removeprefix("test_"): value for name, value in summary["metrics"].items()}
    return {"steps": summary["steps"], "test_loss": found["loss"], JOBS[job][3]: found[JOBS[job][3]],
            "seconds": round(seconds, 1)}


def train_pytorch(job, seed, args):
    script = JOBS[job][0]
    config = subprocess.run([args.starling, "print-config", *settings(job, args), "--json"], check=True,
                            stdout=subprocess.PIPE).stdout
    file = Path(args.folder) / f"{job}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(config)
    out = subprocess.run([sys.executable, str(HERE / script), "--job", str(file), "--seed", str(seed), "--threads",
                          str(args.threads)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.splitlines()[-1])


def read(files):
    rows = [json.loads(line) for file in files if Path(file).exists() for line in open(file, encoding="utf-8")]
    return {(row["job"], row["side"], row["seed"]): row for row in rows}


def mean(values):
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}"


def table(results):
    print("| job | steps | metric | seeds | Starling | PyTorch | ratio | seconds, Starling | seconds, PyTorch |")
    print("|---|---|---|---|---|---|---|---|---|")
    for job, (*_, metric) in JOBS.items():
        rows = {side: {seed: row for (j, s, seed), row in results.items() if (j, s) == (job, side)}
                for side in ("starling", "pytorch")}
        seeds = sorted(rows["starling"].keys() & rows["pytorch"].keys())
        if not seeds:
            continue
        ours, theirs = ([rows[side][seed] for seed in seeds] for side in ("starling", "pytorch"))
        steps = {row["steps"] for row in ours + theirs}
        if len(steps) > 1:
            sys.exit(f"expected as many steps on both sides of {job}, got {sorted(steps)}")
        a, b = ([row[metric] for row in side] for side in (ours, theirs))
        c, d = (statistics.mean(row["seconds"] for row in side) for side in (ours, theirs))
        print(f"| {job} | {steps.pop()} | {metric} | {len(seeds)} | {mean(a)} | {mean(b)} | "
              f"{statistics.mean(a) / statistics.mean(b):.4f} | {c:.0f} | {d:.0f} |")


def main():
    args = parse()
    if args.table:
        return table(read(args.table))
    file = Path(args.results or Path(args.folder) / "results.jsonl")
    file.parent.mkdir(parents=True, exist_ok=True)
    for seed in args.seeds:
        for job in args.jobs:
            for side in args.sides:
                if (job, side, seed) in read([file]):
                    continue
                made = (train_starling if side == "starling" else train_pytorch)(job, seed, args)
                with open(file, "a", encoding="utf-8") as out:
                    out.write(json.dumps({"job": job, "side": side, "seed": seed, **made}) + "\n")
    table(read([file]))


main()
