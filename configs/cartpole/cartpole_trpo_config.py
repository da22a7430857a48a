"""TRPO on CartPole-v1."""

from easydict import EasyDict

cartpole_trpo_config = dict(
    exp_name="cartpole_trpo_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        cuda=False,
        action_space="discrete",
        model=dict(
            obs_shape=4,
            action_shape=2,
            action_space="discrete",
            share_encoder=False,
            encoder_hidden_size_list=[64, 64],
        ),
        learn=dict(max_kl=0.02),
        collect=dict(n_sample=1024, discount_factor=0.99, gae_lambda=0.95),
        eval=dict(evaluator=dict(eval_freq=4)),
    ),
)
main_config = EasyDict(cartpole_trpo_config)

cartpole_trpo_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="trpo"),
)
create_config = EasyDict(cartpole_trpo_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
