"""Two network namespaces joined by a link of a given rate: bench/netns.sh makes them, this keeps them and enters them."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

NETNS = Path(__file__).resolve().parents[1] / "netns.sh"
HOLD = 'printf "%s %s" "$ADDRESS" "$LINK" >"$HOLD/$RANK.new" && mv "$HOLD/$RANK.new" "$HOLD/$RANK" && exec sleep 86400'


class Namespaces:
    """A context manager; sides[i] has the address, the interface and the words that run a command there."""

    def __init__(self, rate: str):
        self.rate = rate

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="starling-netns-")
        self.process = subprocess.Popen(
            [str(NETNS), "--rate", self.rate, "--", "sh", "-c", HOLD], env={**os.environ, "HOLD": self.folder.name},
            start_new_session=True)
        self.sides = [self.side(i) for i in range(2)]
        return self

    def side(self, i: int) -> dict:
        said, end = Path(self.folder.name) / str(i), time.monotonic() + 20
        while not said.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{NETNS} made no namespaces (it needs root, ip and tc)")
            time.sleep(0.05)
        address, link = said.read_text().split()
        return {"address": address, "link": link,
                "within": ["ip", "netns", "exec", f"starling{self.process.pid}{'ab'[i]}"]}

    def __exit__(self, *_):
        self.process.terminate()  # its trap takes everything down
        self.process.wait(timeout=20)
        self.folder.cleanup()
