"""``ding board``: all runs on a local web page."""

import signal
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import click


@click.command("board")
@click.argument("folders", nargs=-1, metavar="[DIR]...", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: a free one]")
@click.option("--browser/--no-browser", default=True, help="Open the page in the browser.")
@click.option("--tensorboard", is_flag=True, help="Open TensorBoard on the folder instead.")
def board_command(folders: tuple[Path, ...], host: str, port: int, browser: bool, tensorboard: bool) -> None:
    """Show all runs below DIR (default: here) on a local web page: curves, configs, logs and active runs."""
    board(folders or (Path(),), host, port, browser, tensorboard, click.echo)


def board(
    folders: Sequence[Path], host: str, port: int, browser: bool, tensorboard: bool, echo: Callable[[str], None]
) -> None:
    """Serve the board until Ctrl-C or SIGTERM.

    Args:
        folders: Folders that contain runs.
        host: Address to listen on.
        port: Port; 0 for a free one.
        browser: Open the page in the user's browser.
        tensorboard: Run TensorBoard on the first folder instead.
        echo: Prints a line for the user.

    Raises:
        ConfigValueError: The address or the port is unavailable, or ``--tensorboard`` is used with several folders.
        MissingExtraError: TensorBoard is not installed (with ``--tensorboard``).
    """
    from ding.config import ConfigValueError
    from ding.entry.board.server import serve_board

    if tensorboard:
        _tensorboard(folders, host, port)
        return

    def ready(link: str) -> None:
        echo(f"The board is at {link}\nIt shows what is below {', '.join(map(str, folders))}. Ctrl-C ends it.")
        if browser:
            webbrowser.open(link)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        serve_board(folders, host, port, ready)
    except OSError as error:
        raise ConfigValueError(f"--host {host} --port {port}: cannot listen there: {error}") from error
    except KeyboardInterrupt:
        pass  # before the server ran
    echo("The board has ended.")


def _tensorboard(folders: Sequence[Path], host: str, port: int) -> None:
    from ding.config import ConfigValueError
    from ding.utils import require_extra

    if len(folders) > 1:
        raise ConfigValueError("--tensorboard shows one folder; give the one that holds the others")
    require_extra("tensorboard", "tensorboard")
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folders[0]), "--host", host]
    subprocess.run([*command, "--port", str(port)] if port else command, check=False)
