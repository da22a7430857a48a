"""EDAC on Pendulum-v1.

Its data: `python configs/pendulum/pendulum_sac_data_generation_config.py`. It needs actions of all kinds: with those of
a good policy alone it was at a return of -1,000 after 2,000 train iterations.

Result: the stop value on seeds 0, 1 and 2 after 3,000 train iterations each.
"""

from easydict import EasyDict

pendulum_edac_config = dict(
    exp_name="pendulum_edac_seed0",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=3,
            action_shape=1,
            ensemble_num=10,
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
            # With the default of one, the critics fit their targets ten times worse.
            critic_head_layer_num=2,
        ),
        learn=dict(
            train_epoch=1000,
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            learning_rate_alpha=0.0003,
            ignore_done=True,
            alpha=0.2,
            auto_alpha=True,
            # Gradients by an action of one dimension have no angle to keep apart: the term would be constant.
            eta=0.0,
        ),
        collect=dict(
            data_type="columns",
            data_path="pendulum_sac_data_generation/mixed",
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=500,
            ),
        ),
    ),
)
main_config = EasyDict(pendulum_edac_config)

pendulum_edac_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="edac",
    ),
)
create_config = EasyDict(pendulum_edac_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_offline

    serial_pipeline_offline((main_config, create_config), seed=0)
