"""DQN on CartPole with the classic API by hand: make envs, policy, workers, and write the loop yourself.

The same program in one call is ``ding.entry.serial_pipeline``; see ``configs/cartpole/cartpole_dqn_config.py``. It
reaches a mean evaluation return of 195 after about 1,000 to 2,000 env steps, in a few seconds.

    python examples/classic_dqn.py
"""

from functools import partial

from easydict import EasyDict
from tensorboardX import SummaryWriter

from ding.config import compile_config
from ding.envs import BaseEnvManager, DingEnvWrapper
from ding.model import DQN
from ding.policy import DQNPolicy
from ding.rl_utils import get_epsilon_greedy_fn
from ding.utils import SeedTree
from ding.worker import AdvancedReplayBuffer, BaseLearner, InteractionSerialEvaluator, SampleSerialCollector

main_config = EasyDict(
    exp_name="cartpole_classic_dqn",
    env=dict(collector_env_num=8, evaluator_env_num=5, n_evaluator_episode=5, stop_value=195),
    policy=dict(
        cuda=False,
        model=dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[128, 128, 64], dueling=True),
        discount_factor=0.97,
        learn=dict(update_per_collect=5, batch_size=64, learning_rate=0.001),
        collect=dict(n_sample=8),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(
            eps=dict(type="exp", start=0.95, end=0.1, decay=10000),
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)


def main(cfg: EasyDict = main_config, seed: int = 0, max_env_step: int = 10_000) -> float:
    """Train until the stop value or ``max_env_step``; returns the mean return of the last evaluation."""
    cfg = compile_config(
        cfg,
        BaseEnvManager,
        DQNPolicy,
        BaseLearner,
        SampleSerialCollector,
        InteractionSerialEvaluator,
        AdvancedReplayBuffer,
        save_cfg=True,
    )
    seeds = SeedTree(seed)
    seeds.seed_process("learner", use_cuda=cfg.policy.cuda)
    env_fn = partial(DingEnvWrapper, cfg=EasyDict(env_id="CartPole-v1"))
    collector_env = BaseEnvManager([env_fn] * cfg.env.collector_env_num, cfg.env.manager)
    evaluator_env = BaseEnvManager([env_fn] * cfg.env.evaluator_env_num, cfg.env.manager)
    collector_env.seed(seeds.env_seeds(cfg.env.collector_env_num, "collector"))
    evaluator_env.seed(seeds.env_seeds(cfg.env.evaluator_env_num, "evaluator", purpose="evaluate"), dynamic_seed=False)

    policy = DQNPolicy(cfg.policy, model=DQN(**cfg.policy.model))
    tb_logger = SummaryWriter(f"./{cfg.exp_name}/log/serial")
    learner = BaseLearner(cfg.policy.learn.learner, policy.learn_mode, tb_logger, exp_name=cfg.exp_name)
    collector = SampleSerialCollector(
        cfg.policy.collect.collector, collector_env, policy.collect_mode, tb_logger, exp_name=cfg.exp_name
    )
    evaluator = InteractionSerialEvaluator(
        cfg.policy.eval.evaluator, evaluator_env, policy.eval_mode, tb_logger, exp_name=cfg.exp_name
    )
    replay_buffer = AdvancedReplayBuffer(cfg.policy.other.replay_buffer, tb_logger, exp_name=cfg.exp_name)

    eps_cfg = cfg.policy.other.eps
    epsilon = get_epsilon_greedy_fn(eps_cfg.start, eps_cfg.end, eps_cfg.decay, eps_cfg.type)
    mean_return = float("-inf")
    while collector.envstep < max_env_step:
        if evaluator.should_eval(learner.train_iter):
            stop, info = evaluator.eval(learner.save_checkpoint, learner.train_iter, collector.envstep)
            mean_return = info["eval_episode_return_mean"]
            if stop:
                break
        new_data = collector.collect(train_iter=learner.train_iter, policy_kwargs={"eps": epsilon(collector.envstep)})
        replay_buffer.push(new_data, cur_collector_envstep=collector.envstep)
        for _ in range(cfg.policy.learn.update_per_collect):
            train_data = replay_buffer.sample(cfg.policy.learn.batch_size, learner.train_iter)
            if train_data is None:
                break
            learner.train(train_data, collector.envstep)
            if learner.policy.get_attribute("priority"):
                replay_buffer.update(learner.priority_info)

    for worker in (collector, evaluator, learner, replay_buffer):
        worker.close()
    tb_logger.close()
    print(
        f"mean return {mean_return:.1f} after {collector.envstep} env steps and {learner.train_iter} train iterations"
    )
    return mean_return


if __name__ == "__main__":
    main()
