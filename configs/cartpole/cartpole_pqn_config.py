"""PQN on CartPole-v1."""

from easydict import EasyDict

cartpole_pqn_config = dict(
    exp_name="cartpole_pqn_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        cuda=False,
        discount_factor=0.99,
        q_lambda=0.65,
        model=dict(
            obs_shape=4,
            action_shape=2,
            encoder_hidden_size_list=[128, 128],
            norm_type="LN",
            dueling=False,
        ),
        learn=dict(epoch_per_collect=4, batch_size=64, learning_rate=0.001),
        collect=dict(n_sample=256),
        eval=dict(evaluator=dict(eval_freq=160)),
        other=dict(eps=dict(type="linear", start=1.0, end=0.05, decay=10000)),
    ),
)
main_config = EasyDict(cartpole_pqn_config)

cartpole_pqn_create_config = dict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="pqn"),
)
create_config = EasyDict(cartpole_pqn_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
