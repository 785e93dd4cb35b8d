"""Writes the files that a page of the documentation asks its reader to write.

  write_project.py PAGE FOLDER NAME…    the blocks after <!-- run: file NAME -->
"""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "docs"))
import blocks  # noqa: E402

page, folder, *names = sys.argv[1:]
found = {block.said("run"): block.text for block in blocks.read_blocks(pathlib.Path(page))}
pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
for name in names:
    if f"file {name}" not in found:
        sys.exit(f"{page}: expected a block after <!-- run: file {name} -->, got none")
    (pathlib.Path(folder) / name).write_text(found[f"file {name}"], encoding="utf-8")
