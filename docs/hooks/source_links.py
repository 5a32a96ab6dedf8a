"""MkDocs hook: links into the source tree, which a code host follows, become plain text on the built pages."""

import re
from typing import Any

_SOURCE_LINK = re.compile(r"\[([^\]]+)\]\(\.\./(?:sparing|tests|benchmarks)[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Keep the text of each link into the repository."""
    return _SOURCE_LINK.sub(r"\1", markdown)
