"""Write the encoder of the configs in this folder, ``small_encoder``, into the current folder (extra ``llm``)."""

from ding.envs.zoo.word_match_env import WORDS
from ding.model.template.language_transformer import make_small_encoder

if __name__ == "__main__":
    print(make_small_encoder("small_encoder", WORDS))
