"""Self-play with PPO on the coin game of two players: a league chooses between the policy itself and its snapshots.

Result: the stop value on seeds 0, 1 and 2 after 36,480, 30,720 and 36,480 env steps (`docs/results.md`). It wins 52 to
56 % of 300 games against that opponent (`examples/selfplay.py`).
"""

from easydict import EasyDict

duel_ppo_league_config = dict(
    exp_name="duel_ppo_league_seed0",
    env=dict(
        size=5,
        steps=30,
        collector_env_num=16,
        evaluator_env_num=20,
        n_evaluator_episode=200,
        # Evaluations are against the opponent of the env that always goes towards the coin.
        eval_opponent="GREEDY",
        # Mean lead in coins.
        stop_value=0.2,
    ),
    policy=dict(
        cuda=False,
        action_space="discrete",
        model=dict(
            obs_shape=8,
            action_shape=5,
            action_space="discrete",
            encoder_hidden_size_list=[64, 64],
            critic_head_hidden_size=64,
            actor_head_hidden_size=64,
        ),
        learn=dict(
            epoch_per_collect=4,
            batch_size=240,
            learning_rate=0.001,
            value_weight=0.5,
            entropy_weight=0.01,
            clip_ratio=0.2,
        ),
        collect=dict(
            # Games of a collection, all against one opponent.
            n_episode=32,
            unroll_len=1,
            discount_factor=0.9,
            gae_lambda=0.9,
            collector=dict(
                league=dict(
                    naive_sp_player=dict(
                        # In train iterations; a snapshot is taken after one or two of them.
                        one_phase_step=40,
                        branch_probs=dict(pfsp=0.5, sp=0.5),
                    ),
                ),
            ),
        ),
        eval=dict(evaluator=dict(eval_freq=160)),
    ),
)
main_config = EasyDict(duel_ppo_league_config)

duel_ppo_league_create_config = dict(
    env=dict(type="duel", import_names=["ding.envs.duel_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
    collector=dict(type="league"),
)
create_config = EasyDict(duel_ppo_league_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
