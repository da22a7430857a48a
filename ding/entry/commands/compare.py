"""``ding compare``."""

import json

import click


@click.command("compare")
@click.argument("experiments", nargs=-1, required=True, metavar="EXP...")
@click.option("-o", "--output", metavar="PNG", help="Also draw the curves, with intervals, into this file.")
@click.option("--at", type=click.FloatRange(0), metavar="STEP", help="Compare returns at this step.")
@click.option("--by", default="return", show_default=True, help="What is better: return, area or steps.")
@click.option("--stop-value", type=float, metavar="RETURN", help="Count env steps to this return.")
@click.option("--tag", metavar="TAG", help="The scalar of the returns.  [default: that of the evaluations]")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def compare_command(
    experiments: tuple[str, ...],
    output: str | None,
    at: float | None,
    by: str,
    stop_value: float | None,
    tag: str | None,
    as_json: bool,
) -> None:
    """Compare experiments over several seeds: interquartile means, intervals, probabilities of improvement.

    \b
    ding compare runs/sac runs/td3
    ding compare 'runs/sac_seed*' 'runs/td3_*' --output sac_td3.png

    EXP is an experiment folder, a folder that contains several, or a quoted pattern whose runs form one experiment.
    Runs in folders that differ only in their seed also form one experiment.

    Interquartile means and 95 % bootstrap intervals follow Agarwal et al. 2021 (arXiv:2108.13264). Returns are compared
    at the end of the shortest unsolved run; solved runs keep their last return. No code of a run is executed.
    """
    from ding.entry.view.compare import compare
    from ding.entry.view.plot import check_picture, draw_curves

    if output is not None:
        check_picture(output)
    found = compare(experiments, tag, None if at is None else int(at), by, stop_value)
    click.echo(json.dumps(found.as_dict(), indent=2) if as_json else found.table())
    if output is not None:
        draw_curves(found.curves, output, found.tag)
        if not as_json:
            click.echo(output)
