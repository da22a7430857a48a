"""Seeds of the envs of a task."""

from ding.data.roles import EnvManager
from ding.framework.task import current_task
from ding.utils import SeedTree, process_index


def seed_collector_envs(env: EnvManager, seed: int) -> None:
    """Seed the envs of a collector.

    Each collector of a task and each process of a run uses different seeds, and a resumed training uses other seeds
    than the original run.

    Args:
        env: Env manager.
        seed: Seed of the run.
    """
    task = current_task()
    number, env_step = 0, 0
    if task.running:
        context = task.ctx
        number, env_step = task.num_collectors, int(getattr(context, "env_step", 0))
        task.num_collectors += 1
    seeds = SeedTree(int(seed))
    purpose = f"collect {number} from {env_step}" if number or env_step else "collect"
    env.seed(seeds.env_seeds(env.env_num, "collector", process=process_index(), purpose=purpose))
