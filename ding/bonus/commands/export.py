"""``ding export``."""

import click


@click.command("export")
@click.argument("exp_dir")
@click.option("--format", "format_", default="torchscript", show_default=True, help="torchscript or onnx.")
@click.option("--out", metavar="FILE", help="The file.  [default: EXP_DIR/policy.pt or policy.onnx]")
@click.option("--checkpoint", metavar="FILE", help="Another checkpoint than the best one.")
@click.option("--trust", is_flag=True, help="Import the code that the run needs, also where it is not your own.")
def export_command(exp_dir: str, format_: str, out: str | None, checkpoint: str | None, trust: bool) -> None:
    """Export the policy of the run in EXP_DIR to a file that does not need ding: observations in, actions out."""
    from ding.bonus.experiment import load
    from ding.bonus.quick.export import default_path, export

    path = export(
        load(exp_dir, checkpoint=checkpoint, trust_config=trust), out or default_path(exp_dir, format_), format_
    )
    click.echo(f"{path}: acts as the agent does on random observations")
