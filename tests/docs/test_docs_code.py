"""The code of the tutorial and of the how-tos runs as it stands, page by page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / "tutorial.md", DOCS / "replay_buffers.md", *sorted(DOCS.glob("howto/*.md"))]
# Several processes one after the other; `.ci/run` runs them.
SLOW = ("tutorial", "resume", "export", "parallel")
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.M | re.S)
_DEPRECATED = "ignore:`torch.jit"
FLAGS = {
    "python": [sys.executable, "-W", "error", "-W", _DEPRECATED, "-c"],
    "sh": ["bash", "-euo", "pipefail", "-c"],
}


def scripts(page: Path) -> list[tuple[str, str]]:
    """The blocks in their order, those of one language that follow each other as one script; all Python is one."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    parts: list[tuple[str, str]] = []
    for language, text in blocks:
        if parts and parts[-1][0] == language:
            parts[-1] = language, f"{parts[-1][1]}\n{text}"
        else:
            parts.append((language, text))
    return parts


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=[pytest.mark.slow] * (page.stem in SLOW)) for page in PAGES]
)
def test_the_code_of_a_page_runs_in_its_order(page, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "configs").symlink_to(DOCS.parent / "configs")
    parts = scripts(page)
    assert parts, "a page without code is no how-to"
    for language, text in parts:
        # Blocks of Python further down use the names of those above.
        whole = "import ding\n" + text if language == "python" and "import" not in text else text
        run = subprocess.run(
            [*FLAGS[language], whole], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert run.returncode == 0, f"{whole}\n{run.stderr}"
