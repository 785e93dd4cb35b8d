#!/usr/bin/env python3
"""What `starling inspect graph --format tensorboard` writes, read by TensorBoard's own code.

usage: tensorboard_test.py <starling program> <folder for TensorBoard, where it must be fetched>
Ends with 77 (skipped) where the package tensorboard is neither installed nor to be had.
"""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tensorboard_package

tensorboard_package.use(sys.argv[2])

from tensorboard.backend.event_processing import event_accumulator, event_file_loader  # noqa: E402
from tensorboard.compat.proto import graph_pb2  # noqa: E402


def main() -> int:
    starling = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "lenet"
        subprocess.run(
            [starling, "inspect", "graph", "lenet", "--batch", "4", "--format", "tensorboard", "-o", str(folder)],
            check=True,
        )
        files = list(folder.glob("*tfevents*"))
        assert len(files) == 1, files
        events = list(event_file_loader.EventFileLoader(str(files[0])).Load())
        assert events[0].file_version == "brain.Event:2", events[0]

        accumulator = event_accumulator.EventAccumulator(str(folder))
        accumulator.Reload()
        assert accumulator.Tags()["graph"], accumulator.Tags()
        graph = accumulator.Graph()
        assert isinstance(graph, graph_pb2.GraphDef)

        nodes = {node.name: node for node in graph.node}
        assert len(nodes) == len(graph.node), "names are not unique"
        conv = nodes["conv2/conv2d"]
        assert conv.device == "/device:CPU:0", conv.device
        (shape,) = conv.attr["_output_shapes"].list.shape
        assert [dim.size for dim in shape.dim] == [4, 50, 8, 8], shape
        assert "conv2/weight" in conv.input, conv.input
        for node in graph.node:
            for edge in node.input:
                assert edge.lstrip("^").split(":")[0] in nodes, (node.name, edge)
        assert any(node.name.startswith("gradients/conv2/") for node in graph.node)
    print(f"{len(nodes)} nodes read by TensorBoard")
    return 0


if __name__ == "__main__":
    sys.exit(main())
