"""PPO with the noise of RPO (arXiv:2212.07536) on Pendulum-v1, else as ``pendulum_ppo``."""

from easydict import EasyDict

pendulum_ppo_rpo_config = dict(
    exp_name="pendulum_ppo_rpo_seed0",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        collector_env_num=10,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        action_space="continuous",
        recompute_adv=True,
        model=dict(
            obs_shape=3,
            action_shape=1,
            encoder_hidden_size_list=[64, 64],
            action_space="continuous",
            actor_head_layer_num=0,
            critic_head_layer_num=0,
            sigma_type="conditioned",
            bound_type="tanh",
        ),
        learn=dict(
            epoch_per_collect=10,
            batch_size=32,
            learning_rate=0.001,
            value_weight=0.5,
            entropy_weight=0.0,
            clip_ratio=0.2,
            rpo_alpha=0.1,
            adv_norm=False,
            value_norm=True,
            ignore_done=True,
        ),
        collect=dict(
            n_sample=5000,
            discount_factor=0.9,
            gae_lambda=0.95,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=500,
            ),
        ),
    ),
)
main_config = EasyDict(pendulum_ppo_rpo_config)

pendulum_ppo_rpo_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="ppo",
    ),
)
create_config = EasyDict(pendulum_ppo_rpo_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
