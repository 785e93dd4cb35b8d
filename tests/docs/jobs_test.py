"""Every ```yaml block of the pages is a job that `starling validate` accepts, or becomes one.

  jobs_test.py ROOT PROGRAM

A comment right before a block, which readers do not see, says more about it:

  <!-- job: with SECTIONS -->   the block shows a part of a job; SECTIONS, lines of YAML, are the rest
  <!-- job: no (why) -->        the block is no job
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import blocks

PROGRAM = str(pathlib.Path(sys.argv.pop()).resolve())
ROOT = pathlib.Path(sys.argv.pop())
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def job_of(block: blocks.Block) -> str:
    """Text of the job that a block shows; "" if it says that it is none."""
    said = block.said("job")
    kind, _, rest = said.partition(" ")
    if blocks.left_out(said):
        return ""
    if kind not in ("", "with"):
        raise ValueError(f"{block.page}:{block.line}: expected with SECTIONS or no (why), got '{said}'")
    return block.text + rest + "\n"


def refusal(job: str) -> str:
    """What `starling validate` has against a job; "": nothing."""
    with tempfile.TemporaryDirectory(prefix="starling-job-") as folder:
        (pathlib.Path(folder) / "job.yaml").write_text(job, encoding="utf-8")
        done = subprocess.run([PROGRAM, "validate", "--no-data", "job.yaml"], cwd=folder, capture_output=True,
                              encoding="utf-8", timeout=60, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr + "(validate failed)"


class Jobs(unittest.TestCase):
    def page(self, text: str) -> list[blocks.Block]:
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text(text, encoding="utf-8")
            return blocks.read_blocks(page)

    def test_jobs_of_all_pages_are_valid(self):
        jobs = [(block, job_of(block)) for page in PAGES for block in blocks.read_blocks(page)
                if block.language in ("yaml", "yml")]
        self.assertGreater(len(jobs), 10)
        for block, job in jobs:
            with self.subTest(page=block.page.name, line=block.line):
                self.assertEqual(refusal(job) if job else "", "")

    def test_a_wrong_key_is_found(self):
        whole = "```yaml\nmodel: {name: mlp}\ndata: {name: synthetic}\noptimizer: {name: sgd, %s: 0.1}\n```\n"
        right, wrong = (self.page(whole % key)[0] for key in ("lr", "rate"))
        self.assertEqual(refusal(job_of(right)), "")
        self.assertIn("job.yaml:3", refusal(job_of(wrong)))

    def test_a_part_is_completed_and_a_wrong_one_is_found(self):
        part = "<!-- job: with model: {name: mlp}\ndata: {name: synthetic} -->\n```yaml\ntrain: {%s: 2}\n```\n"
        right, wrong = (self.page(part % key)[0] for key in ("epochs", "epoch"))
        self.assertEqual(refusal(job_of(right)), "")
        self.assertIn("epoch", refusal(job_of(wrong)))

    def test_unknown_words_are_refused(self):
        with self.assertRaises(ValueError):
            job_of(self.page("<!-- job: perhaps -->\n```yaml\na: 1\n```\n")[0])


if __name__ == "__main__":
    unittest.main()
