"""run_page.py on small pages."""

import pathlib
import tempfile
import unittest

import run_page

PAGE = """# Page
<!-- run: this page -->
<!-- run: file deep/names.txt -->
```text
ada
grace
```
```sh
sort -r deep/names.txt > sorted
cat sorted; echo "took 12 ms"
```
<!-- run: shows -->
```
grace
ada
took … ms
```
<!-- run: no (needs a cluster) -->
```sh
exit 3
```
<!-- run: fails -->
```sh
ls nowhere
```
<!-- run: setup echo given > granted -->
```sh
cat granted sorted
```
```yaml
not: run
```
"""


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_text(self, text):
        page = pathlib.Path(self.folder.name) / "page.md"
        page.write_text(text, encoding="utf-8")
        run_page.main([str(page), "/bin/true"])

    def refused(self, text):
        with self.assertRaises(SystemExit) as caught:
            self.run_text(text)
        return str(caught.exception)

    def test_blocks_are_run_in_one_folder(self):
        self.run_text(PAGE)

    def test_a_command_that_fails_is_named_with_its_line(self):
        told = self.refused("text\n```sh\necho before\nfalse\necho after\n```\n")
        self.assertIn("page.md:3: expected no error, got exit status 1", told)
        self.assertIn("before", told)
        self.assertNotIn("after", told)

    def test_a_block_that_should_fail_has_to(self):
        self.assertIn("got exit status 127", self.refused("<!-- run: fails -->\n```sh\nno-such-command\n```\n"))
        self.assertIn("expected an error", self.refused("<!-- run: fails -->\n```sh\nkill -KILL $$\n```\n"))
        self.assertIn("expected an error", self.refused("<!-- run: fails -->\n```sh\ntrue\n```\n"))

    def test_shown_lines_have_to_be_printed_in_this_order(self):
        shown = "```sh\nprintf 'a\\nb\\n'\n```\n<!-- run: shows -->\n```\n{}\n```\n"
        self.run_text(shown.format("a\nb"))
        self.assertIn("expected to be shown: a", self.refused(shown.format("b\na")))

    def test_unknown_words_are_refused(self):
        self.assertIn("got 'sometimes'", self.refused("<!-- run: sometimes -->\n```sh\ntrue\n```\n"))
        self.assertIn("got 'later'", self.refused("<!-- run: later -->\n```yaml\na: 1\n```\n"))

    def test_a_comment_counts_for_the_next_block_only(self):
        self.run_text("<!-- run: fails -->\n```sh\nfalse\n```\n```sh\ntrue\n```\n")


if __name__ == "__main__":
    unittest.main()
