"""The code of the tutorial and of the how-tos runs as it stands, page by page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.glob("howto/*.md"))
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_in_its_order(page, tmp_path) -> None:
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks, "a page without code is a concept page: it belongs into docs/"
    python = "\n\n".join(text for language, text in blocks if language == "python")
    script = "\n".join(text for language, text in blocks if language == "sh")
    for command, text in (([sys.executable, "-W", "error"], python), (["bash", "-euo", "pipefail"], script)):
        if text:
            path = tmp_path / "page"
            path.write_text(text, encoding="utf-8")
            run = subprocess.run(
                [*command, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
            )
            assert run.returncode == 0, run.stderr
