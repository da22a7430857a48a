"""Policy gradient that chooses the examples of a prompt (PromptPG; Lu et al. 2022, arXiv:2209.14610)."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch

from ding.data import EnvBatch, TransitionBatch, batched
from ding.data.roles import Samples
from ding.model import model_wrap
from ding.policy._acting.observations import output_column
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.update import Logs, read_out
from ding.policy._samples.segments import as_given, with_returns
from ding.policy.base_policy import Policy
from ding.policy.common_utils import transition_of
from ding.policy.errors import PolicyDataError
from ding.rl_utils import get_train_sample
from ding.rl_utils.policy_dist import Categorical
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("prompt_pg")
class PromptPGPolicy(Policy):
    """Choose ``shot_number`` different candidates for each text, and learn from the return.

    An observation is ``{'train_sample': a text, 'candidate_samples': C texts}``, an action ``shot_number`` numbers of
    candidates. All observations of a batch have the same candidates, which the network reads once.
    """

    config = {
        "type": "prompt_pg",
        "on_policy": True,
        "cuda": "auto",
        # (bool) Whether evaluation takes the most likely candidates, and does not draw them.
        "deterministic_eval": True,
        # (int) Number of candidates to choose.
        "shot_number": 1,
        "learn": {
            "batch_size": 64,
            "learning_rate": 0.001,
            "entropy_weight": 0.01,
            # (float) Limit of the 2-norm of the gradient.
            "grad_norm": 5,
            # (str or None) How gradients are clipped, and the limit.
            "grad_clip_type": None,
            "grad_clip_value": None,
            # Not supported: a return needs the end of the episode.
            "ignore_done": False,
        },
        # Each text is a task of its own where the discount is 0.
        "collect": {"unroll_len": 1, "discount_factor": 0, "collector": {"get_train_sample": True}},
        "eval": {},
    }
    #: What the network computes to collect, and what a transition keeps of it.
    network_mode: ClassVar[str] = "compute_actor"
    output_fields: ClassVar[tuple[str, ...]] = ("action",)

    def default_model(self) -> tuple[str, list[str]]:
        """``language_transformer`` of :mod:`ding.model.template.language_transformer`."""
        return "language_transformer", ["ding.model.template.language_transformer"]

    def _get_gamma(self) -> float:
        """Attribute ``gamma``: the discount of a step."""
        return float(self._cfg.collect.discount_factor)

    def _init_learn(self) -> None:
        self._optimizer = clipping_adam(self._model.parameters(), self._cfg.learn)
        self._learn_model = model_wrap(self._model, wrapper_name="base")
        self._learn_model.reset()

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One pass over B samples with ``return``, in their order; returns a dict of floats per minibatch."""
        if not self._model.training:
            self._model.train()
        rate = {"cur_lr": self._optimizer.param_groups[0]["lr"]}
        return [rate | read_out(self._update(batch)) for batch in self._minibatches(data)]

    def _minibatches(self, data: Samples) -> Iterator[dict[str, Any]]:
        """Yield the samples in order, ``learn.batch_size`` at a time; texts as ``texts`` and ``candidates``."""
        columns = dict(TransitionBatch.of(data).columns)
        obs = columns.pop("obs")
        tensors = self._learn_batch(TransitionBatch(columns))
        tensors["action"] = tensors["action"].reshape(len(data), -1)
        size = self._cfg.learn.batch_size
        for start in range(0, len(data), size):
            part = slice(start, start + size)
            texts, candidates = texts_of({key: column[part] for key, column in obs.items()})
            fields = ("action", "return", "value")
            yield {
                "texts": texts,
                "candidates": candidates,
                **{key: tensors[key][part] for key in fields if key in tensors},
            }

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update on a minibatch: ``-mean(R sum_i log pi(a_i | s)) - entropy_weight H(pi)`` over the candidates
        ``a_i`` of an action.
        """
        learn = self._cfg.learn
        policy = Categorical(self._learn_model.forward(batch["texts"], batch["candidates"])["logit"])
        log_prob = policy.log_p.gather(1, batch["action"]).sum(1)
        policy_loss = -(log_prob * batch["return"]).mean()
        entropy_loss = -learn.entropy_weight * policy.entropy().mean()
        loss = policy_loss + entropy_loss
        norm = self._optimize(loss, self._optimizer, self._model, learn.grad_norm)
        assert norm is not None  # there is a limit
        return {
            "total_loss": loss,
            "policy_loss": policy_loss,
            "entropy_loss": entropy_loss,
            "return_abs_max": batch["return"].abs().max(),
            "grad_norm": norm,
        }

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "policy_loss", "entropy_loss", "return_abs_max", "grad_norm"]

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        self._collect_model = model_wrap(self._model, wrapper_name="combination_multinomial_sample")
        self._collect_model.reset()

    @batched
    def _forward_collect(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:  # type: ignore[override]
        """Different candidates drawn one after the other, ``action`` int64 ``[N, shot_number]``, and ``logit``."""
        return self._chosen(self._collect_model, data, self.network_mode)

    def _init_eval(self) -> None:
        best = self._cfg.get("deterministic_eval", True)
        name = "combination_argmax_sample" if best else "combination_multinomial_sample"
        self._eval_model = model_wrap(self._model, wrapper_name=name)
        self._eval_model.reset()

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """The most likely candidates."""
        return self._chosen(self._eval_model, data, "compute_actor")

    def _chosen(self, model: Any, data: EnvBatch, mode: str) -> EnvBatch:
        if self._model.training:
            self._model.eval()
        with torch.no_grad():
            output = model.forward(self._cfg.shot_number, *texts_of(data.columns), mode=mode)
        kept = {key: output_column(value) for key, value in output.items() if key != "dist"}
        return EnvBatch(data.env_ids, kept)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """The transition of one environment, or the columns of N."""
        return transition_of(obs, policy_output, timestep, self.output_fields, next_obs=False, time_limit_is_end=True)

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The transitions with ``return`` (float32): discounted to the end of what was collected of an episode.

        Raises:
            NotImplementedError: ``learn.ignore_done``.
        """
        if self._cfg.learn.ignore_done:
            raise NotImplementedError("policy.learn.ignore_done: a return needs the end of the episode")
        batch = with_returns(TransitionBatch.of(transitions), self._cfg.collect.discount_factor)
        return get_train_sample(as_given(batch, transitions), self._unroll_len)


def texts_of(obs: Any) -> tuple[list[str], list[str]]:
    """Return the B texts and the C candidates of observation columns.

    Raises:
        PolicyDataError: they have no such fields, or the rows have different candidates.
    """
    try:
        texts, candidates = list(obs["train_sample"]), obs["candidate_samples"]
    except (KeyError, TypeError, IndexError) as error:
        found = sorted(obs) if isinstance(obs, Mapping) else type(obs).__name__
        raise PolicyDataError(
            f"an observation must be {{'train_sample': text, 'candidate_samples': texts}}, found {found}"
        ) from error
    first = list(candidates[0])
    for row, other in enumerate(candidates):
        if list(other) != first:
            raise PolicyDataError(
                f"all observations of a batch need the same candidate_samples, but row {row} differs from row 0"
            )
    return texts, first
