"""Names and docstrings of what the library's registries hold."""

from __future__ import annotations

from typing import Any


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def describe(doc: str, schema: dict[str, Any]) -> str:
    lines = [doc, ""]
    for key, value in schema.get("properties", {}).items():
        default = f" (default {value['default']!r})" if "default" in value else ""
        lines.append(f"{key}: {value.get('description', '')}{default}")
    return "\n".join(lines)
