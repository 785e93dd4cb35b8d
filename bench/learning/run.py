"""Trains the language models and spelling to sounds with Starling and with PyTorch, and prints both beside each other.

    python run.py --starling build/release/bin/starling --seeds 1 2 3 --threads 2
    python run.py --table RESULTS.jsonl
    python run.py --starling build/release/bin/starling --same 20

Results are appended to --results as they come, and what is there already is not done again.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peer.built import built  # noqa: E402

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
    parser.add_argument("--same", type=int, metavar="STEPS", help="only compare so many steps from the same weights")
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


def starling(job, folder, args, more=()):
    """Trains; returns the summary."""
    values = [*more, f"train.folder={folder}", f"distribute.threads={args.threads}"]
    subprocess.run([args.starling, "train", *settings(job, args), *[part for v in values for part in ("--set", v)],
                    "--resume", "none", "--progress", "plain"], check=True, stdout=sys.stderr)
    return json.loads((Path(folder) / "summary.json").read_text())


def pytorch(job, args, more=(), options=()):
    """The same; returns what the script prints."""
    file = Path(args.folder) / f"{job}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(subprocess.run([args.starling, "print-config", *settings(job, args), "--json",
                                     *[part for v in more for part in ("--set", v)]], check=True,
                                    stdout=subprocess.PIPE).stdout)
    out = subprocess.run([sys.executable, str(HERE / JOBS[job][0]), "--job", str(file), "--threads", str(args.threads),
                          *options], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.splitlines()[-1])


def train_starling(job, seed, args):
    begin = time.monotonic()
    summary = starling(job, Path(args.folder) / f"{job}_{seed}", args, [f"train.seed={seed}"])
    seconds = time.monotonic() - begin
    found, metric = summary["metrics"], JOBS[job][3]
    return {"steps": summary["steps"], "test_loss": found["test_loss"], metric: found["test_" + metric],
            "seconds": round(seconds, 1)}


def train_pytorch(job, seed, args):
    return pytorch(job, args, [f"train.seed={seed}"])


def compare_steps(job, args):
    """The same first weights, no dropout: the losses of all steps must be the same to rounding."""
    folder = Path(args.folder) / "same" / job
    same = ["model.dropout=0", "schedule.warmup.steps=5", "monitor.scalars_every=1", "data.test_limit=1500",
            "train.export=false"]
    starling(job, folder / "first", args, [*same, "train.steps=1", "optimizer.lr=0"])
    starling(job, folder / "run", args, [*same, f"train.steps={args.same}"])
    lines = [json.loads(line) for line in open(folder / "run" / "log.jsonl", encoding="utf-8")]
    ours = [line["loss"] for line in lines if line["event"] == "train"]
    weights = folder / "first" / "checkpoints" / "step-00000001" / "tensors.safetensors"
    theirs = pytorch(job, args, [*same, f"train.steps={args.same}"], ["--weights", str(weights)])["losses"]
    apart = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    print(f"{job}: {len(ours)} steps, loss {ours[0]:.4f} to {ours[-1]:.4f}, at most {apart:.1e} apart")
    return apart < 1e-4


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
        ratio = f"{statistics.mean(a) / statistics.mean(b):.4f}" if any(b) else "–"
        print(f"| {job} | {steps.pop()} | {metric} | {len(seeds)} | {mean(a)} | {mean(b)} | {ratio} | {c:.0f} | {d:.0f} |")


def main():
    args = parse()
    if args.table:
        return table(read(args.table))
    args.starling = built(args.starling)
    if args.same:
        fine = [compare_steps(job, args) for job in args.jobs]
        sys.exit(0 if all(fine) else 1)
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


if __name__ == "__main__":
    main()
