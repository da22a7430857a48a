"""HAPPO of two agents, each with its own networks, on a cooperative game.

The best mean return is 7.36, that of random moves 2.44. Result: the stop value on seeds 0, 1 and 2 after 29,696,
17,408 and 62,464 env steps.
"""

from easydict import EasyDict

n_agent, n_cell = 2, 6
line_cover_happo_config = dict(
    exp_name="line_cover_happo_seed0",
    env=dict(
        n_agent=n_agent,
        n_cell=n_cell,
        max_cycles=8,
        agent_specific_global_state=True,
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=64,
        stop_value=7,
    ),
    policy=dict(
        cuda=False,
        action_space="discrete",
        agent_num=n_agent,
        model=dict(
            agent_num=n_agent,
            agent_obs_shape=3 * n_cell + 3 + n_agent,
            global_obs_shape=(n_agent + 4) * n_cell + 3 + n_agent,
            action_shape=3,
            action_space="discrete",
            encoder_hidden_size_list=[64, 64],
        ),
        learn=dict(
            epoch_per_collect=4,
            batch_size=256,
            learning_rate=0.001,
            entropy_weight=0.05,
        ),
        collect=dict(
            n_sample=512,
            discount_factor=0.95,
            gae_lambda=0.95,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=20,
            ),
        ),
    ),
)
main_config = EasyDict(line_cover_happo_config)

line_cover_happo_create_config = dict(
    env=dict(
        type="line_cover",
        import_names=["ding.envs.zoo.line_cover_env"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="happo",
    ),
)
create_config = EasyDict(line_cover_happo_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
