#!/usr/bin/env python3
"""What a run leaves for TensorBoard, read by TensorBoard's own code: a run that is cut short, loses its newest checkpoint
and the tail of its event file, and is then resumed.

usage: tensorboard_run_test.py <test_train> <folder for TensorBoard, where it must be fetched>
Ends with 77 (skipped) where the package tensorboard is neither installed nor to be had.
"""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tensorboard_package

tensorboard_package.use(sys.argv[2])

from tensorboard.backend.event_processing import event_accumulator  # noqa: E402
from tensorboard.plugins.hparams import plugin_data_pb2  # noqa: E402

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
    assert (picture.width, picture.height) == (4 * 9 - 1, 4 * 9 - 1), (picture.width, picture.height)
    assert picture.encoded_image_string.startswith(b"\x89PNG\r\n\x1a\n")
    (job,) = accumulator.Tensors("job")
    assert b"optimizer: {momentum: 0.9}" in job.tensor_proto.string_val[0], job


def check_hyperparameters(accumulator) -> None:
    content = accumulator.PluginTagToContent("hparams")
    read = {tag: plugin_data_pb2.HParamsPluginData.FromString(data) for tag, data in content.items()}
    start = read["_hparams_/session_start_info"].session_start_info
    assert start.hparams["optimizer.momentum"].number_value == 0.9, start
    assert start.hparams["model.name"].string_value == "bands", start
    metrics = [info.name.tag for info in read["_hparams_/experiment"].experiment.metric_infos]
    assert {"train/loss", "test/accuracy"} <= set(metrics) <= set(accumulator.Tags()["scalars"]), metrics
    assert read["_hparams_/session_end_info"].session_end_info.status == 1, read


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        run = pathlib.Path(name) / "run"
        subprocess.run(
            [sys.argv[1], "--gtest_filter=MonitorRun.*"],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "STARLING_MONITOR_RUN": str(run)},
        )
        log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
        assert len(list(run.glob("events.out.tfevents.*"))) == 2
        keep_all = {kind: 0 for kind in ("scalars", "histograms", "images", "tensors", "graph")}
        accumulator = event_accumulator.EventAccumulator(str(run), size_guidance=keep_all)
        accumulator.Reload()
        check_scalars(accumulator, log)
        check_histograms(accumulator)
        check_rest(accumulator)
        check_hyperparameters(accumulator)
        tags = accumulator.Tags()
        print(
            f"TensorBoard read {len(tags['scalars'])} scalars, {len(tags['histograms'])} histograms, a graph, a picture, "
            "a text and the hyper-parameters"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
