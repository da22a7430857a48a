"""The diagrams of the site as pictures in ``img/diagrams``, so that it loads nothing from elsewhere: a hook of mkdocs.

A diagram is written as a fence of mermaid, which GitHub draws too. Its picture has the hash of its text for a name; the
site shows the text of one that has no picture. ``python docs/diagrams.py`` makes the pictures anew, after a diagram was
changed; it needs npm (mermaid is fetched), Chromium and playwright (extra ``dev``).
"""

import hashlib
import logging
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FOLDER = "img/diagrams"
MERMAID = "@mermaid-js/tiny@11.17.2"

_FENCE = re.compile(r"^```mermaid\n(.*?)^```$", re.M | re.S)
_DRAW = """async (text) => {
    const flowchart = {htmlLabels: false, wrappingWidth: 300};
    mermaid.initialize({startOnLoad: false, theme: "neutral", htmlLabels: false, flowchart});
    return (await mermaid.render("diagram", text)).svg;
}"""


def picture_of(text: str) -> str:
    """Return the path of the picture of a diagram, from the folder of the docs."""
    return f"{FOLDER}/{hashlib.sha256(text.encode()).hexdigest()[:12]}.svg"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the pictures in the place of the diagrams (called by mkdocs)."""
    up = "../" * page.file.src_uri.count("/")

    def shown(fence: "re.Match[str]") -> str:
        name = picture_of(fence[1])
        if (DOCS / name).exists():
            return f"[![Diagram]({up}{name})]({up}{name})"
        logging.getLogger("mkdocs").info("%s: a diagram has no picture: python docs/diagrams.py", page.file.src_uri)
        return f"```text\n{fence[1]}```"

    return _FENCE.sub(shown, markdown)


def _diagrams() -> Iterator[str]:
    for path in sorted(DOCS.rglob("*.md")):
        yield from _FENCE.findall(path.read_text(encoding="utf-8"))


def main() -> None:
    """Make the picture of each diagram."""
    from playwright.sync_api import sync_playwright

    shutil.rmtree(DOCS / FOLDER, ignore_errors=True)
    (DOCS / FOLDER).mkdir()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tools:
        subprocess.run(["npm", "pack", "--silent", MERMAID], cwd=folder, check=True)
        shutil.unpack_archive(next(Path(folder).glob("*.tgz")), folder)
        with tools.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"]) as browser:
            page = browser.new_page()
            page.add_script_tag(path=Path(folder, "package/dist/mermaid.tiny.js"))
            for text in _diagrams():
                drawn = page.evaluate(_DRAW, text).replace("max-width:", "background: white; max-width:", 1)
                (DOCS / picture_of(text)).write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
