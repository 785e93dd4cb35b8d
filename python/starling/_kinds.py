"""Names and docstrings of what the library's registries hold."""

from __future__ import annotations

import keyword
from typing import Any


def camel(name: str) -> str:
    """max_pool2d as MaxPool2d."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def identifier(name: str) -> str:
    """A name as Python can write it: async_ for what jobs call async."""
    return name + "_" if keyword.iskeyword(name) else name


def describe(doc: str, schema: dict[str, Any]) -> str:
    """A docstring: what a kind is, and a line for each option."""
    lines = [doc, ""]
    for key, value in schema.get("properties", {}).items():
        default = f" (default {value['default']!r})" if "default" in value else ""
        lines.append(f"{key}: {value.get('description', '')}{default}")
    return "\n".join(lines)
