"""PromptPG on TabMWP: choose two examples for each question about a table.

``env.data_path`` is a folder with ``problems_train.json`` of the data set and, for ``enable_replay``, recorded answers
(``TabMWP.parse_all_answers`` writes them); ``policy.model.model_name`` is a local folder of an encoder, or its name on
the Hugging Face hub (extra ``llm``). A language model of your own answers with ``enable_replay=False`` and
``answer_fn`` or ``model_path``.
"""

from easydict import EasyDict

tabmwp_pg_config = dict(
    exp_name="tabmwp_pg_seed0",
    env=dict(
        collector_env_num=1,
        evaluator_env_num=1,
        n_evaluator_episode=1,
        stop_value=1,
        data_path="dizoo/tabmwp/data",
        enable_replay=True,
        prompt_format="TQ-A",
        cand_number=16,
        train_number=80,
        shot_number=2,
        seed=0,
    ),
    policy=dict(
        cuda=False,
        shot_number=2,
        model=dict(
            model_name="bert-base-uncased",
            add_linear=True,
            embedding_size=128,
            freeze_encoder=True,
        ),
        learn=dict(batch_size=10, learning_rate=0.001, entropy_weight=0.001, grad_norm=0.5),
        collect=dict(n_sample=20, discount_factor=0.0),
        eval=dict(evaluator=dict(eval_freq=500)),
    ),
)
main_config = EasyDict(tabmwp_pg_config)

tabmwp_pg_create_config = dict(
    env=dict(type="tabmwp", import_names=["dizoo.tabmwp.envs.tabmwp_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="prompt_pg"),
    replay_buffer=dict(type="naive"),
)
create_config = EasyDict(tabmwp_pg_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy

    serial_pipeline_onpolicy((main_config, create_config), seed=0)
