"""All pages: commands are run by a test or say why not, links lead somewhere, every page is in the index.

  pages_test.py ROOT
"""

import pathlib
import re
import sys
import unittest

import blocks

ROOT = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = "<!-- run: this page -->"
COMMAND = re.compile(r"^(?: {4})?(starling|cmake|mpirun|srun|bench/\w+\.py|scripts/\w+) ")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
FENCED = re.compile(r"^```.*?^```$", re.S | re.M)


def anchors(page: pathlib.Path) -> set[str]:
    """Names of the headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


class Pages(unittest.TestCase):
    def test_commands_run_or_say_why_not(self):
        for page in PAGES:
            runs = RUN in page.read_text(encoding="utf-8")
            for block in blocks.read_blocks(page):
                with self.subTest(page=page.name, line=block.line):
                    if block.language == "sh":
                        self.assertTrue(runs or blocks.left_out(block.said("run")),
                                        "expected <!-- run: this page --> in it or <!-- run: no (why) --> before the block")
                    elif not block.language and not block.said("run"):
                        self.assertIsNone(COMMAND.match(block.text), "commands are ```sh")

    def test_no_command_hides_in_an_indented_block(self):
        for page in PAGES:
            text = FENCED.sub("", page.read_text(encoding="utf-8"))
            for line in text.split("\n"):
                self.assertFalse(line.startswith("    ") and COMMAND.match(line), f"{page.name}: {line}")

    def test_links_lead_somewhere(self):
        for page in PAGES:
            for file, anchor in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
                if ":" in file:
                    continue  # another site
                target = (page.parent / file).resolve() if file else page
                with self.subTest(page=page.name, link=f"{file}#{anchor}"):
                    self.assertTrue(target.exists())
                    if anchor and target.suffix == ".md":
                        self.assertIn(anchor, anchors(target))

    def test_every_page_is_in_the_index(self):
        index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
        for page in sorted((ROOT / "docs").glob("*.md")):
            if page.name != "README.md":
                self.assertIn(f"]({page.name})", index)


if __name__ == "__main__":
    unittest.main()
