"""extract.py on small pages."""

import pathlib
import tempfile
import unittest

import extract

PAGE = """# Page
<!-- compile: int n = 0; -->
```cpp
#include <vector>
int twice(int x) {
  return 2 * x;
}
int m = twice(n);
```
```yaml
no: C++
```
<!-- compile: no (a sketch) -->
```cpp
m = …
```
```cpp
for (int i = 0; i < twice(1); ++i) {
}
```
"""


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def page(self, text):
        path = pathlib.Path(self.folder.name) / "page.md"
        path.write_text(text, encoding="utf-8")
        return path

    def test_blocks_know_their_line_and_what_they_are_given(self):
        blocks = extract.read_blocks(self.page(PAGE))
        self.assertEqual([b.line for b in blocks], [4, 15, 18])
        self.assertEqual([b.given for b in blocks], ["int n = 0;", "no (a sketch)", ""])
        self.assertEqual([b.left_out for b in blocks], ["", "a sketch", ""])

    def test_a_block_that_only_compiles_says_why(self):
        page = self.page("<!-- compile: only (needs two hosts) int n; -->\n```cpp\n++n;\n```\n```cpp\nint m;\n```\n")
        self.assertEqual([b.not_run for b in extract.read_blocks(page)], ["needs two hosts", ""])
        lines = extract.source(page).split("\n")
        self.assertIn("int n;", lines)
        self.assertNotIn("block_1();", lines)
        self.assertIn("block_2();", lines)

    def test_a_block_for_ranks_runs_on_each_with_its_communicator(self):
        lines = extract.source(self.page("<!-- ranks: 3 -->\n```cpp\nint r = comm->rank();\n```\n")).split("\n")
        self.assertIn("auto all_ranks = make_thread_comms(3);", lines)
        self.assertIn('#include "starling/training.h"', lines)

    def test_main_of_a_page_is_run_and_ends_with_a_value(self):
        lines = extract.source(self.page("```cpp\nint main() {\n  int x = 1;\n}\n```\n")).split("\n")
        self.assertIn("return 0; }", lines)
        self.assertIn("main();", lines)
        self.assertIn("namespace page_page { void run_all(); }", extract.main_source([self.page("```cpp\nint x;\n```\n")]))
        self.assertNotIn("page_page", extract.main_source([self.page("no C++\n")]))

    def test_three_points_stand_for_any_lines(self):
        for shown, printed, same in [(["a", "…", "d"], ["a", "b", "c", "d"], True), (["a", "…"], ["a"], True),
                                     (["a", "…", "d"], ["a", "b"], False), (["a"], ["a", "b"], False)]:
            self.assertEqual(extract.shows(shown, printed), same)

    def test_functions_and_includes_go_before_the_statements(self):
        lines = [line for line in extract.source(self.page(PAGE)).split("\n") if line]
        order = ["#include <vector>", "int twice(int x) {", "void block_1() {", "int n = 0;", "int m = twice(n);"]
        self.assertEqual(order, [line for line in lines if line in order])
        self.assertIn("void block_2() {", lines)  # the loop is no function
        self.assertFalse(any("…" in line for line in lines))

    def test_statements_keep_their_line_numbers(self):
        lines = extract.source(self.page(PAGE)).split("\n")
        mark = next(i for i, line in enumerate(lines) if line.startswith("#line 4") and lines[i - 1] == "{")
        self.assertEqual(lines[mark + 1 :].index("int m = twice(n);"), 8 - 4)

    def test_output_of_a_block_is_compared_line_by_line(self):
        page = self.page("```cpp\nint twice;\n```\n<!-- prints -->\n```\na\n b\n```\n")
        self.assertEqual([b.prints for b in extract.read_blocks(page)], [["a", " b"]])
        lines = extract.source(page).split("\n")
        self.assertIn("block_1();", lines)
        self.assertIn("void run_all() {", lines)
        program = pathlib.Path(self.folder.name) / "program"

        def printing(text):
            program.write_text(f"#!/bin/sh\nprintf '{text}'\n", encoding="utf-8")
            program.chmod(0o755)
            extract.check(page, str(program))

        printing("@@ line 2\\na\\n b\\n")
        with self.assertRaises(SystemExit) as caught:
            printing("@@ line 2\\na\\n c\\n")
        self.assertIn("page.md:2: this prints\na\n c\nbut the page shows", str(caught.exception))
        with self.assertRaises(SystemExit):
            printing("")
        program.write_text("#!/bin/sh\nprintf '@@ line 2\\na\\n b\\n'; exit 3\n", encoding="utf-8")
        with self.assertRaises(SystemExit) as caught:
            extract.check(page, str(program))
        self.assertIn("page.md:2: this ends with 3", str(caught.exception))

    def test_output_without_a_block_that_prints_it_is_refused(self):
        with self.assertRaises(SystemExit):
            extract.read_blocks(self.page("<!-- prints -->\n```\na\n```\n"))

    def test_another_name_of_the_language_is_refused(self):
        with self.assertRaises(SystemExit):
            extract.read_blocks(self.page("```c++\nint x;\n```\n"))

    def test_a_block_without_an_end_is_refused(self):
        with self.assertRaises(SystemExit):
            extract.read_blocks(self.page("```cpp\nint x;\n"))


if __name__ == "__main__":
    unittest.main()
