"""PromptPG: a policy gradient that chooses two examples for each question.

The best return is 1, that of random choices 0.125. The encoder is small and starts from random weights (extra ``llm``).
As a script this file makes it first, in the current folder; for ``ding -c`` run ``configs/text/make_small_encoder.py``
once.
"""

from easydict import EasyDict

word_match_prompt_pg_config = dict(
    exp_name="word_match_prompt_pg_seed0",
    env=dict(
        shot_number=2,
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=64,
        stop_value=0.95,
    ),
    policy=dict(
        cuda=False,
        shot_number=2,
        model=dict(
            # A folder with a tokenizer and an encoder, or a name such as "bert-base-uncased".
            model_name="small_encoder",
            add_linear=True,
            embedding_size=32,
            freeze_encoder=False,
        ),
        learn=dict(batch_size=64, learning_rate=0.001, entropy_weight=0.001),
        collect=dict(n_sample=128, discount_factor=0.0),
        eval=dict(evaluator=dict(eval_freq=20)),
    ),
)
main_config = EasyDict(word_match_prompt_pg_config)

word_match_prompt_pg_create_config = dict(
    env=dict(type="word_match", import_names=["ding.envs.zoo.word_match_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="prompt_pg"),
)
create_config = EasyDict(word_match_prompt_pg_create_config)

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy
    from ding.envs.zoo.word_match_env import WORDS
    from ding.model.template.language_transformer import make_small_encoder

    make_small_encoder("small_encoder", WORDS)
    serial_pipeline_onpolicy((main_config, create_config), seed=0)
