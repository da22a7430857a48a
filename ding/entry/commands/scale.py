"""``ding scale``."""

import click


@click.command("scale")
@click.argument("exp_dir")
@click.option("--collectors", type=click.IntRange(1, 10_000), required=True, help="How many there are to be.")
def scale_command(exp_dir: str, collectors: int) -> None:
    """Change the number of collectors of the active parallel run in EXP_DIR.

    Additional collectors are started; surplus ones leave, the newest first, and their tasks go to others. ``ding status
    EXP_DIR`` lists the collectors. In a run of ``-m dist``, start or stop them yourself, too.
    """
    before = scale_run(exp_dir, collectors)["before"]
    click.echo(f"{exp_dir}: {collectors} collectors from now on, {before} before")


def scale_run(exp_dir: str, collectors: int) -> dict[str, int]:
    """Set the number of collectors of the active parallel run in ``exp_dir``; return ``{'before', 'collectors'}``.

    Raises:
        ConfigValueError: No run is active there, or it does not answer.
    """
    from ding.entry.view.access_file import ask_run
    from ding.interaction import request_scale

    answer: dict[str, int] = ask_run(exp_dir, request_scale, collectors)
    return answer
