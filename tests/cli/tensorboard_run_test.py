#!/usr/bin/env python3
"""What a run leaves for TensorBoard, read by TensorBoard's own code: a run that is cut short, loses its newest checkpoint
and the tail of its event file, and is then resumed.

usage: tensorboard_run_test.py <starling program> <folder for TensorBoard, where it must be fetched>
Ends with 77 (skipped) where the package tensorboard is neither installed nor to be had.
"""

import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tensorboard_package

tensorboard_package.use(sys.argv[2])

from tensorboard.backend.event_processing import event_accumulator  # noqa: E402
from tensorboard.plugins.hparams import plugin_data_pb2  # noqa: E402

JOB = """
model: {{name: mlp}}
data: {{folder: {folder}, batch: 20}}
optimizer: {{lr: 0.05, momentum: 0.9}}
train: {{folder: {folder}/run, epochs: 4, checkpoint_every: 10, keep: 10}}
monitor: {{scalars_every: 5, histograms_every: 10, activations: ["*"]}}
"""


def write_images(folder: pathlib.Path, part: str, count: int) -> None:
    """Noise with a bright band of rows that tells the class, in Fashion-MNIST's format."""
    labels = [i % 10 for i in range(count)]
    noise = 12345
    pixels = bytearray()
    for label in labels:
        for pixel in range(28 * 28):
            noise = (noise * 1664525 + 1013904223) % 2**32
            pixels.append((noise >> 25) + (120 if pixel // 28 // 3 == label else 0))
    (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + bytes(pixels))
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + bytes(labels))


def train(starling: str, folder: pathlib.Path, *more: str) -> None:
    job = folder / "job.yaml"
    job.write_text(JOB.format(folder=folder))
    subprocess.run([starling, "train", str(job), "--progress", "off", *more], check=True, stdout=subprocess.DEVNULL)


def cut_short(run: pathlib.Path) -> None:
    """As if it had been killed between step 30's checkpoint and step 40's, while it wrote a record."""
    newest = run / "checkpoints" / "step-00000040"
    assert newest.is_dir(), sorted(newest.parent.iterdir())
    shutil.rmtree(newest)
    (events,) = run.glob("events.out.tfevents.*")
    events.write_bytes(events.read_bytes()[:-7])


def check_scalars(accumulator, log: list[dict]) -> None:
    tags = accumulator.Tags()["scalars"]
    for tag in ("train/loss", "train/lr", "test/accuracy", "speed/samples_per_s", "speed/data_wait", "memory/megabytes"):
        assert tag in tags, (tag, tags)
    for tag in tags:
        steps = [event.step for event in accumulator.Scalars(tag)]
        assert steps == sorted(set(steps)), (tag, steps)
        assert all(math.isfinite(event.value) for event in accumulator.Scalars(tag)), tag
    losses = {event.step: event.value for event in accumulator.Scalars("train/loss")}
    assert list(losses) == [1, *range(5, 61, 5)], list(losses)
    logged = {event["step"]: event["loss"] for event in log if event["event"] == "train"}
    assert losses.keys() == logged.keys(), (losses, logged)
    assert all(math.isclose(losses[step], logged[step], rel_tol=1e-6) for step in losses), (losses, logged)
    assert losses[60] < 0.7 * losses[1], losses
    ratios = [tag for tag in tags if tag.startswith("update_ratio/")]
    assert ratios and all(0 < event.value < 1 for tag in ratios for event in accumulator.Scalars(tag)), ratios


def check_histograms(accumulator) -> None:
    tags = accumulator.Tags()["histograms"]
    weights = [tag for tag in tags if tag.startswith("weights/")]
    gradients = [tag for tag in tags if tag.startswith("gradients/")]
    assert len(weights) >= 2 and len(gradients) == len(weights), tags
    assert any(tag.startswith("activations/") for tag in tags), tags
    for tag in tags:
        events = accumulator.Histograms(tag)
        first = 0 if tag.startswith("weights/") else 10
        assert [event.step for event in events] == list(range(first, 61, 10)), (tag, [event.step for event in events])
        for event in events:
            value = event.histogram_value
            assert value.num > 0 and sum(value.bucket) == value.num, (tag, value)
            assert value.min <= value.max and len(value.bucket) == len(value.bucket_limit)


def check_rest(accumulator) -> None:
    tags = accumulator.Tags()
    assert tags["graph"], tags
    assert any("matmul" in node.op or "linear" in node.op for node in accumulator.Graph().node)
    (picture,) = accumulator.Images("samples")
    assert (picture.width, picture.height) == (4 * 29 - 1, 4 * 29 - 1), (picture.width, picture.height)
    assert picture.encoded_image_string.startswith(b"\x89PNG\r\n\x1a\n")
    (job,) = accumulator.Tensors("job")
    assert b"momentum: 0.9" in job.tensor_proto.string_val[0], job


def check_hyperparameters(accumulator) -> None:
    content = accumulator.PluginTagToContent("hparams")
    read = {tag: plugin_data_pb2.HParamsPluginData.FromString(data) for tag, data in content.items()}
    start = read["_hparams_/session_start_info"].session_start_info
    assert start.hparams["optimizer.momentum"].number_value == 0.9, start
    assert start.hparams["model.name"].string_value == "mlp", start
    metrics = [info.name.tag for info in read["_hparams_/experiment"].experiment.metric_infos]
    assert metrics == ["train/loss", "test/accuracy"], metrics
    assert read["_hparams_/session_end_info"].session_end_info.status == 1, read


def main() -> int:
    starling = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_images(folder, "train", 300)
        write_images(folder, "t10k", 40)
        train(starling, folder, "--set", "train.steps=40")
        cut_short(folder / "run")
        train(starling, folder)
        log = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]
        assert len(list((folder / "run").glob("events.out.tfevents.*"))) == 2
        keep_all = {kind: 0 for kind in ("scalars", "histograms", "images", "tensors", "graph")}
        accumulator = event_accumulator.EventAccumulator(str(folder / "run"), size_guidance=keep_all)
        accumulator.Reload()
        check_scalars(accumulator, log)
        check_histograms(accumulator)
        check_rest(accumulator)
        check_hyperparameters(accumulator)
        print(f"TensorBoard read {len(accumulator.Tags()['scalars'])} scalars, {len(accumulator.Tags()['histograms'])} "
              "histograms, a graph, a picture, a text and the hyper-parameters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
