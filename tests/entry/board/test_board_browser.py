"""The page in a real browser: what is drawn, by mouse, by keyboard, on a phone's width, while a run lasts."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tensorboardX import SummaryWriter

pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra dev)")
from playwright.sync_api import expect, sync_playwright

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NOTHING = "\u2013"
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed (apt-get install chromium)")


def write_run(folder: Path, values: list[float], **config: float) -> None:
    writer = SummaryWriter(str(folder / "log" / "serial"))
    for step, value in enumerate(values):
        for axis, x in (("step", step * 100), ("iter", step)):
            writer.add_scalar(f"evaluator_{axis}/reward_mean", value, x)
            writer.add_scalar(f"learner_{axis}/total_loss_avg", 1 / (step + 1), x)
    writer.close()
    (folder / "total_config.py").write_text(f"main_config = {{'policy': {config!r}}}\n")
    (folder / "log" / "learner.txt").write_text("all is well\n")


def write_status(folder: Path, env_step: int, **more) -> None:
    status = {"state": "running", "time_s": time.time(), "env_step": env_step, "last_return": 1.5, "share": 0.5, **more}
    (folder / "status.new").write_text(json.dumps(status))
    os.replace(folder / "status.new", folder / "status.json")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("board")
    write_run(folder / "dqn" / "seed0", [1.0, 2.0, 3.0], learning_rate=0.1, batch_size=64)
    write_run(folder / "dqn" / "seed1", [1.0, 4.0, 9.0], learning_rate=0.2, batch_size=64)
    write_run(folder / "ppo", [5.0, 5.5, float("nan")], learning_rate=0.1, batch_size=64)
    process = {"state": "running", "pid": 4711, "restarts": 2, "uptime_s": 61.0, "last_end": "SIGKILL"}
    write_status(folder / "ppo", 123, processes={"collector0": process}, workers={"collector0": {"does": "collects"}})
    return folder


@pytest.fixture(scope="module")
def link(runs):
    command = [sys.executable, "-m", "ding", "board", str(runs), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as board:
        try:
            yield re.search(r"http\S+", board.stdout.readline())[0]
            # Not SIGINT, which the jobs of some shells ignore.
            board.send_signal(signal.SIGTERM)
            assert "The board has ended." in board.communicate(timeout=120)[0]
            assert board.returncode == 0
        finally:
            board.kill()


@pytest.fixture(scope="module")
def browser():
    with (
        sync_playwright() as tools,
        contextlib.closing(tools.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])) as browser,
    ):
        yield browser


@pytest.fixture
def page(browser, link):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, faults = context.new_page(), []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.goto(link)
    # The first page of a browser takes its time on a busy machine.
    expect(page.locator(".u-over")).to_have_count(1, timeout=60_000)
    yield page
    assert faults == []
    context.close()


def names(page):
    return page.locator("#table tbody tr td:nth-child(2)").all_inner_texts()


def legend(page, chart=0):
    return page.locator(".chart").nth(chart).locator(".u-series:not(.band) .u-label")


def test_all_runs_are_listed_and_drawn(page):
    expect(page.locator("#count")).to_have_text("3 of 3 runs, 1 running")
    assert names(page) == ["dqn/seed0", "dqn/seed1", "ppo"]
    expect(legend(page)).to_have_text(["Value", "dqn/seed0", "dqn/seed1", "ppo"])
    expect(page.locator(".chart p")).to_have_text("ppo: values that are not finite: 1")
    assert page.url.split("#")[0].endswith("/")


def test_sorting_filtering_and_the_choice_of_runs(page):
    page.get_by_role("button", name="best").click()
    assert names(page) == ["dqn/seed1", "ppo", "dqn/seed0"]
    expect(page.locator("th[aria-sort=descending]")).to_have_text("best ▼")
    page.get_by_label("Filter").fill("dqn")
    assert names(page) == ["dqn/seed1", "dqn/seed0"]
    page.get_by_label("draw dqn/seed1").uncheck()
    expect(legend(page)).to_have_text(["Value", "dqn/seed0"])


def test_mean_axis_charts_and_differences(page):
    page.get_by_label("group seeds").check()
    expect(legend(page)).to_have_text(["Value", "dqn (2)", "ppo (1)"])
    page.get_by_label("X axis").select_option("iter")
    expect(legend(page)).to_have_text(["Value", "dqn (2)", "ppo (1)"])
    page.get_by_role("button", name="Add chart").click()
    page.get_by_label("metric").nth(1).select_option("learner/total_loss_avg")
    expect(legend(page, 1)).to_have_count(3)
    differences = page.locator("#differences table")
    expect(differences.locator("thead th")).to_have_text(["run", "policy.learning_rate"])
    expect(differences.locator("tbody td")).to_have_text(["0.1", "0.2", "0.1"])


def test_what_was_chosen_is_there_after_a_reload(page):
    page.get_by_label("Filter").fill("seed1")
    page.get_by_label("group seeds").check()
    page.reload()
    expect(page.locator("#count")).to_contain_text("1 of 3 runs")
    expect(page.get_by_label("group seeds")).to_be_checked()


def test_by_keyboard_alone(page):
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press(" ")
    expect(legend(page)).to_have_text(["Value", "dqn/seed0", "ppo"])
    page.keyboard.press("Enter")
    expect(page.locator("#detail h2")).to_contain_text("dqn/seed1")
    page.keyboard.press("Escape")
    expect(page.locator("#detail")).to_be_hidden()
    page.keyboard.press("m")
    expect(page.get_by_label("group seeds")).to_be_checked()
    page.keyboard.press("x")
    expect(page.get_by_label("X axis")).to_have_value("iter")
    page.keyboard.press("/")
    page.keyboard.type("ppo")
    assert names(page) == ["ppo"]


def test_a_run_that_lasts_is_followed_with_its_processes(page, runs):
    page.locator("#table tbody tr", has_text="ppo").click()
    expect(page.locator("#detail dd").nth(1)).to_contain_text("123")
    expect(page.locator("#roles tbody tr td")).to_have_text(
        ["collector0", "running", "collects", "4711", "2", "01:01", NOTHING, "SIGKILL"]
    )
    page.get_by_text("Logs").click()
    expect(page.locator("#detail details[open] pre")).to_have_text("all is well\n")
    write_status(runs / "ppo", 456)
    expect(page.locator("#detail dd").nth(1)).to_contain_text("456", timeout=15_000)
    expect(page.locator("#detail details[open] pre")).to_be_visible()


def test_on_a_phone_nothing_is_wider_than_the_screen(page):
    page.set_viewport_size({"width": 390, "height": 800})
    expect(page.locator(".u-wrap")).to_have_css("width", re.compile(r"^3\d\dpx$"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
