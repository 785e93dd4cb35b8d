"""Scripts of bench/ whose programs are not built: they say how to build them, without a traceback."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from peer.built import how_to_build  # noqa: E402

NOTHING = "build/release/nothing"
CALLS = {
    "compare.py": ["--starling", NOTHING],
    "compare_memory.py": ["--starling", NOTHING],
    "scaling.py": ["--starling", NOTHING],
    "codecs.py": ["--starling", NOTHING],
    "codec_choice.py": ["--starling", NOTHING],
    "compare_ops.py": ["--program", NOTHING],
    "compare_comm.py": ["--build", "build/release"],
    "strategies.py": ["--build", "build/release"],
    "layouts.py": ["--build", "build/release"],
    "zero.py": ["--build", "build/release"],
    "to_accuracy.py": ["--build", "build/release"],
    "timeline.py": ["--build", "build/release", "-o", "out.svg"],
    "loader/compare.py": ["--python", sys.executable],
    "learning/run.py": ["--starling", NOTHING],
    "ceilings/compare.py": [NOTHING, NOTHING],
    "conv_compare.py": [NOTHING],
    "optimizer/compare.py": [NOTHING],
}
NEED_TORCH = {"conv_compare.py", "optimizer/compare.py"}  # which they look for first


class Scripts(unittest.TestCase):
    def test_a_program_that_is_not_built_is_named_with_its_commands(self):
        for script, arguments in CALLS.items():
            with self.subTest(script=script), tempfile.TemporaryDirectory() as empty:
                done = subprocess.run([sys.executable, "-B", str(BENCH / script), *arguments], cwd=empty,
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertNotIn("Traceback", done.stderr)
                if done.returncode == 3 and script in NEED_TORCH:
                    self.assertIn("PyTorch", done.stderr)
                    continue
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("is not built", done.stderr)
                self.assertIn("cmake --build --preset", done.stderr)

    def test_every_script_that_calls_a_program_is_tried(self):
        calling = {str(path.relative_to(BENCH)) for path in BENCH.rglob("*.py")
                   if "peer.built" in path.read_text(encoding="utf-8")}
        self.assertEqual(calling, set(CALLS))

    def test_the_commands_follow_from_the_path(self):
        of = lambda path: how_to_build(pathlib.Path(path))  # noqa: E731
        self.assertEqual(of("build/ci/bench/bench_loader"),
                         "cmake --preset ci && cmake --build --preset ci --target bench_loader")
        self.assertEqual(of("elsewhere/bin/starling"),
                         "cmake --preset release && cmake --build --preset release --target starling_cli")
        self.assertIn("-DSTARLING_ONEDNN=ON", of("build/release/bench/bench_ceilings"))


if __name__ == "__main__":
    unittest.main()
