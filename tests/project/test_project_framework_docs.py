"""Each block of code in ``docs/framework.md`` runs as it stands, and its tables name what exists."""

import dataclasses
import re
import runpy
from pathlib import Path

import pytest

from ding import bonus
from ding.framework import OnlineRLContext, middleware

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "framework.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
# Names in the table of keys that are no middleware.
OTHER = {"collect_train_iter", "episode_return"}


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_each_block_runs(number, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / f"block{number}.py"
    script.write_text(BLOCKS[number])
    runpy.run_path(str(script), run_name="__main__")


def table(title: str) -> list[list[str]]:
    text = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_the_table_of_keys_is_that_of_the_context() -> None:
    rows = table("The context")[2:]
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    fields = {field.name for field in dataclasses.fields(OnlineRLContext) if not field.name.startswith("_")}
    assert listed == fields
    kept = {name for row in rows if row[4] == "yes" for name in re.findall(r"`(\w+)`", row[0])}
    context = OnlineRLContext()
    for name in fields:
        setattr(context, name, 7)
    following = context.renew()
    assert {name for name in fields - {"total_step"} if getattr(following, name) == 7} == kept
    named = {name for row in rows for cell in row[2:4] for name in re.findall(r"`(\w+)`", cell)} - OTHER
    assert [name for name in sorted(named) if not hasattr(middleware, name)] == []


def test_the_table_of_agents_names_what_exists() -> None:
    for agents, _, policies in table("An agent in one line")[2:]:
        names, types = re.findall(r"`(\w+)`", agents), re.findall(r"`(\w+)`", policies)
        if names != ["Agent"]:
            assert [getattr(bonus, name).policy_type for name in names] == types
