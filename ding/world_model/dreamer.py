"""Dreamer's world model: latent states that predict observations, rewards and the ends of episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from ding.config import ConfigValueError
from ding.data import TransitionBatch
from ding.data.roles import Buffer, Samples, StateDict, Writer
from ding.data.transition_batch import joined_samples
from ding.model.common.encoder import ConvEncoder, FCEncoder
from ding.torch_utils import Adam
from ding.torch_utils.data_helper import network_tensor
from ding.torch_utils.graph.compiled_graphs import CompiledGraphs
from ding.torch_utils.network.dreamer import DenseHead, layer_class
from ding.utils import WORLD_MODEL_REGISTRY, write_scalars
from ding.utils.names import check_choice
from ding.world_model.base_world_model import WorldModel
from ding.world_model.model.networks import RSSM, ConvDecoder

_OBS_TYPES, _ACTION_TYPES, _VECTOR_HEADS = ("RGB", "vector"), ("continuous", "discrete"), ("symlog", "binary")
_FORMS = {"vector": "of one axis", "RGB": "images (C, H, W)"}
# Buckets of `twohot_symlog` heads, with and without DI-engine's numbers.
_LIMIT, _REFERENCE_LIMIT = 20.0, 1.0


class SequenceBuffer(Protocol):
    """A buffer of transitions that gives sequences of them; see ``SequenceReplayBuffer``."""

    def sample(self, batch: int, sequence: int, cur_learner_iter: int) -> Samples | None:
        """Return ``batch`` sequences of ``sequence`` transitions; ``None`` while it holds too few."""


@WORLD_MODEL_REGISTRY.register("dreamer")
class DREAMERWorldModel(WorldModel, nn.Module):
    """The world model of DreamerV3 (Hafner et al. 2023, arXiv:2301.04104).

    A recurrent state space model (:class:`~ding.world_model.model.networks.RSSM`) carries latent states from step to
    step. Heads predict from each state the observation (``image``), the reward of the action that led to it
    (``reward``) and whether the episode goes on (``discount``). :meth:`train` minimises the negative
    log-likelihoods of the heads and the divergence between the states with and without the observation.

    Policies act in the latent states: ``dynamics.obs_step`` with ``encoder(network_obs(obs))``.

    State: ``encoder``, ``dynamics`` and ``heads``.

    Attributes:
        encoder: observations of :meth:`network_obs` to ``[..., E]``.
        dynamics: the recurrent state space model.
        heads: ``image``, ``reward`` and, with ``model.pred_discount``, ``discount``: features to distributions.
        optimizer: Adam over all parameters.
        pretrain: number of trainings before the first collection.
        obs_type, action_type, state_size, action_size, reward_size, hidden_size, batch_size: keys of ``cfg.model``.
    """

    config: ClassVar[dict[str, Any]] = {
        # (int) Trainings before the first collection.
        "pretrain": 100,
        "train_freq": 2,
        # Training steps are not compiled: any other value than False is logged.
        "compile": False,
        "model": {
            # (int or list) Length of the observations, or (C, H, W) of images.
            "state_size": None,
            # (str) 'vector' or 'RGB': images as floats in [0, 1], or as bytes.
            "obs_type": "RGB",
            # (int) Number of discrete actions, or of dimensions of a continuous one.
            "action_size": None,
            # (str) 'continuous' or 'discrete'.
            "action_type": "continuous",
            # (float) Learning rate.
            "model_lr": 1e-4,
            # (float or None) Limit of the norm of the gradient. None: no limit, as in DI-engine. The first losses of
            # images are large: without a limit, Adam's steps stay small for about a thousand trainings.
            "grad_clip": None,
            # (int) Not used, as in DI-engine.
            "reward_size": 1,
            # (int) Not used, as in DI-engine.
            "hidden_size": 200,
            # (int) Not used, as in DI-engine; the policy's batch counts.
            "batch_size": 256,
            # (int) Not used, as in DI-engine.
            "max_epochs_since_update": 5,
            # (int) Not used: the policy's network has layers of its own.
            "value_layers": 2,
            # (int) Not used: the policy's network has layers of its own.
            "actor_layers": 2,
            # (str) Device of the world model; the pipeline takes the policy's.
            "device": "cpu",
            # (int) Number of random variables.
            "dyn_stoch": 32,
            # (int) Classes of each random variable; 0: they are normal.
            "dyn_discrete": 32,
            # (int) Size of the recurrent state.
            "dyn_deter": 512,
            # (int) Size of the hidden layers around the recurrent state.
            "dyn_hidden": 512,
            # (int) Hidden layers before the recurrent cell.
            "dyn_input_layers": 1,
            # (int) Hidden layers behind the recurrent cell.
            "dyn_output_layers": 1,
            # (int) How often the recurrent cell runs in a step.
            "dyn_rec_depth": 1,
            # (bool) Whether both kinds of states, with and without the observation, share a network; see `RSSM`.
            "dyn_shared": False,
            # (str) Activation of the means of normal variables: 'none' or 'tanh5'.
            "dyn_mean_act": "none",
            # (str) Activation of the deviations of normal variables, see `RSSM`.
            "dyn_std_act": "sigmoid2",
            # (bool) Whether the state with the observation depends on the recurrent state, too.
            "dyn_temp_post": True,
            # (float) Smallest deviation of a normal variable.
            "dyn_min_std": 0.1,
            # (str) The recurrent cell: 'gru_layer_norm' or 'gru'.
            "dyn_cell": "gru_layer_norm",
            # (float) Share of a uniform distribution in the chances of the classes.
            "unimix_ratio": 0.01,
            # (str) Activation, by its name in torch.nn.
            "act": "SiLU",
            # (str) Norm of the hidden layers, by its name in torch.nn.
            "norm": "LayerNorm",
            # (list) Heads whose losses reach the latent states.
            "grad_heads": ["image", "reward", "discount"],
            # (int) Width of the hidden layers of the heads.
            "units": 512,
            # (int) Hidden layers of the head of vector observations.
            "image_dec_layers": 2,
            # (int) Hidden layers of the head of rewards.
            "reward_layers": 2,
            # (int) Hidden layers of the head of ends of episodes.
            "discount_layers": 2,
            # (list) Widths of the encoder of vectors.
            "encoder_hidden_size_list": [64, 128, 128],
            # (int) Channels of the first convolution of images; each kernel has twice as many as the one before.
            "cnn_depth": 32,
            # (list) Sizes of the kernels of the encoder of images.
            "encoder_kernels": [4, 4, 4, 4],
            # (list) Sizes of the kernels of the decoder of images.
            "decoder_kernels": [4, 4, 4, 4],
            # (str) Distribution of rewards, see `DenseHead`.
            "reward_head": "twohot_symlog",
            # (str or None) Distribution of vectors: 'symlog' (any numbers), or 'binary' (numbers in [0, 1]).
            # None: 'symlog', or 'binary' with `reference_numerics`.
            "vector_head": None,
            # (float) Weight of the divergence with gradients to the states with observation.
            "kl_lscale": 0.1,
            # (float) Weight of the divergence with gradients to the states without observation.
            "kl_rscale": 0.5,
            # (float) Divergences below it are not made smaller.
            "kl_free": 1.0,
            # (bool) The divergence of the states without observation from those with it; else the other one.
            "kl_forward": False,
            # (bool) Whether ends of episodes are predicted.
            "pred_discount": True,
            # (bool) DI-engine's numbers: rewards beyond 1.72 count as 1.72.
            "reference_numerics": False,
        },
    }

    def __init__(self, cfg: Mapping[str, Any], env: object = None, tb_logger: Writer | None = None) -> None:
        super().__init__(cfg, env, tb_logger)
        model = self.cfg.model
        check_choice("world_model.model.obs_type", model.obs_type, _OBS_TYPES, ConfigValueError)
        check_choice("world_model.model.action_type", model.action_type, _ACTION_TYPES, ConfigValueError)
        check_choice("world_model.model.vector_head", model.vector_head, (None, *_VECTOR_HEADS), ConfigValueError)
        if not isinstance(model.action_size, int) or model.action_size < 1:
            raise ConfigValueError(f"world_model.model.action_size must be a positive int, found {model.action_size!r}")
        self.obs_type, self.action_type = str(model.obs_type), str(model.action_type)
        self.state_size = _state_size(self.obs_type, model.state_size)
        self.action_size, self.reward_size = model.action_size, model.reward_size
        self.hidden_size, self.batch_size = model.hidden_size, model.batch_size
        self.pretrain = int(self.cfg.pretrain)
        if self.cfg.compile:
            graphs = CompiledGraphs(
                "world_model.compile", self.cfg.compile, f"{type(self).__name__} learns", ConfigValueError
            )
            graphs.give_up("a graph of all steps of a sequence would take too long to compile")
        self._should_pretrain = True
        self._looked_at_obs = False
        self._make_networks(model)
        self.to(self.device)
        self.optimizer = Adam(self.parameters(), lr=model.model_lr, **_clipping(model.grad_clip))

    def _make_networks(self, model: Any) -> None:
        act = layer_class(model.act, "world_model.model.act")
        kernels, depth = list(model.encoder_kernels), int(model.cnn_depth)
        if isinstance(self.state_size, int):
            embed = model.encoder_hidden_size_list[-1]
            self.encoder: nn.Module = FCEncoder(self.state_size, model.encoder_hidden_size_list, activation=act())
        else:
            channels = [depth * 2**power for power in range(len(kernels))]
            _, height, width = self.state_size
            scale = 2 ** len(kernels)
            embed = -(-height // scale) * -(-width // scale) * channels[-1]
            self.encoder = ConvEncoder(
                self.state_size, [*channels, embed], act(), kernels, [2] * len(kernels), layer_norm=True
            )
        self.dynamics = RSSM(
            model.dyn_stoch,
            model.dyn_deter,
            model.dyn_hidden,
            self.action_type,
            model.dyn_input_layers,
            model.dyn_output_layers,
            model.dyn_rec_depth,
            model.dyn_shared,
            model.dyn_discrete,
            act,
            model.norm,
            model.dyn_mean_act,
            model.dyn_std_act,
            model.dyn_temp_post,
            model.dyn_min_std,
            model.dyn_cell,
            unimix_ratio=model.unimix_ratio,
            num_actions=self.action_size,
            embed=embed,
        )
        feat = model.dyn_stoch * (model.dyn_discrete or 1) + model.dyn_deter
        self.heads = self._make_heads(model, feat, act)

    def _make_heads(self, model: Any, feat: int, act: type[nn.Module]) -> nn.ModuleDict:
        units, heads = model.units, nn.ModuleDict()
        if isinstance(self.state_size, int):
            self._vector_head = model.vector_head or ("binary" if model.reference_numerics else "symlog")
            heads["image"] = DenseHead(
                feat, self.state_size, model.image_dec_layers, units, act, dist=self._vector_head, outscale=0.0
            )
        else:
            heads["image"] = ConvDecoder(
                feat, model.cnn_depth, act, model.norm, self.state_size, list(model.decoder_kernels)
            )
        buckets = (255,) if model.reward_head == "twohot_symlog" else ()
        limit = _REFERENCE_LIMIT if model.reference_numerics else _LIMIT
        heads["reward"] = DenseHead(
            feat, buckets, model.reward_layers, units, act, dist=model.reward_head, outscale=0.0, low=-limit, high=limit
        )
        if model.pred_discount:
            heads["discount"] = DenseHead(feat, (), model.discount_layers, units, act, dist="binary")
        unknown = set(model.grad_heads) - {"image", "reward", "discount"}
        if unknown:
            raise ConfigValueError(
                f"world_model.model.grad_heads has {sorted(unknown)}; the heads are image, reward, discount"
            )
        return heads

    def should_pretrain(self) -> bool:
        """Return whether the trainings before the first collection are still to come; True once."""
        should, self._should_pretrain = self._should_pretrain, False
        return should

    def step(self, obs: torch.Tensor, action: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Do nothing, as in DI-engine: steps are made in latent states, by ``dynamics.img_step``."""
        return None

    def eval(self, env_buffer: Buffer | None = None, envstep: int = 0, train_iter: int = 0) -> Any:
        """Do nothing, as in DI-engine; without a buffer as ``nn.Module.eval``."""
        return nn.Module.train(self, False) if env_buffer is None else None

    def network_obs(self, obs: torch.Tensor | np.ndarray) -> torch.Tensor:
        """Return observations as the encoder takes them: float32, images in [-0.5, 0.5].

        Args:
            obs: vectors ``[..., O]``, or images ``[..., C, H, W]`` as floats in [0, 1] or as bytes.

        Raises:
            ConfigValueError: observations are dicts or other containers.
        """
        tensor = torch.as_tensor(self._array(obs))
        if self.obs_type == "vector":
            return tensor.to(self.device, torch.float32)
        floats = tensor.to(self.device, torch.float32)
        return (floats if tensor.is_floating_point() else floats / 255) - 0.5

    def train(  # type: ignore[override]
        self,
        env_buffer: SequenceBuffer | bool = True,
        envstep: int = 0,
        train_iter: int = 0,
        batch_size: int = 16,
        batch_length: int = 64,
    ) -> Any:
        """Learn from sequences of ``env_buffer``; a bool switches the mode, as ``nn.Module.train`` does.

        A step of a sequence has ``obs``, the ``action`` that led to it and the ``reward`` of this action, ``discount``
        (or ``done``) and, where episodes begin inside of sequences, ``is_first``.

        Args:
            env_buffer: ``sample(batch_size, batch_length, train_iter)`` returns B sequences of T transitions.
            envstep: number of real env steps made.
            train_iter: number of updates of the policy.
            batch_size, batch_length: B and T.

        Returns:
            The latent states ``[B, T, ...]``, without gradient, and a dict of ``embed`` ``[B, T, E]``, ``feat``
            ``[B, T, F]``, ``kl`` and ``postent`` (the divergence and the entropy of each state, ``[B, T]``).

        Raises:
            ConfigValueError: the buffer holds too few sequences, or observations out of range.
        """
        if isinstance(env_buffer, bool):
            return nn.Module.train(self, env_buffer)
        samples = env_buffer.sample(batch_size, batch_length, train_iter)
        if samples is None:
            raise ConfigValueError(
                f"the buffer holds no {batch_size} sequences of {batch_length} transitions yet; collect more before "
                "the first training (policy.random_collect_size), or use shorter ones (policy.learn.batch_length)"
            )
        self.last_train_step = envstep
        batch = self._tensors(samples, (batch_size, batch_length))
        embed = self.encoder(batch["image"].flatten(0, 1)).unflatten(0, (batch_size, batch_length))
        post, prior = self.dynamics.observe(embed, batch["action"], is_first=batch.get("is_first"))
        feat = self.dynamics.get_feat(post)
        model = self.cfg.model
        losses: dict[str, torch.Tensor] = {}
        for name, head in self.heads.items():
            found = head(feat if name in model.grad_heads else feat.detach())
            losses[name] = -found.log_prob(batch[name]).mean()
        kl_loss, kl, lhs, rhs = self.dynamics.kl_loss(
            post, prior, model.kl_forward, model.kl_free, model.kl_lscale, model.kl_rscale
        )
        self.optimizer.zero_grad()
        torch.stack([kl_loss, *losses.values()]).sum().backward()
        self.optimizer.step()
        post, prior = ({key: value.detach() for key, value in one.items()} for one in (post, prior))
        entropies = [self.dynamics.get_dist(one).entropy() for one in (prior, post)]
        numbers = {f"{name}_loss": loss for name, loss in losses.items()}
        constants = {f"kl_{name}": float(model[f"kl_{name}"]) for name in ("free", "lscale", "rscale")}
        divergences = {"loss_lhs": lhs, "loss_rhs": rhs, "kl": kl.mean()}
        divergences |= {name: one.mean() for name, one in zip(("prior_ent", "post_ent"), entropies)}
        self._log(numbers, constants, divergences, envstep)
        return post, {"embed": embed.detach(), "feat": feat.detach(), "kl": kl.detach(), "postent": entropies[1]}

    def _log(
        self,
        losses: dict[str, torch.Tensor],
        constants: dict[str, float],
        divergences: dict[str, torch.Tensor],
        envstep: int,
    ) -> None:
        if self.tb_logger is None:
            return
        found = torch.stack([*losses.values(), *divergences.values()]).detach().tolist()
        values = dict(zip([*losses, *divergences], found))
        ordered = {name: values.get(name, constants.get(name)) for name in (*losses, *constants, *divergences)}
        write_scalars(self.tb_logger, "", ordered, envstep)

    def _tensors(self, samples: Any, shape: tuple[int, int]) -> dict[str, torch.Tensor]:
        """Columns ``[B, T, ...]`` of sequences: ``image`` (the observations), ``action``, ``reward``, ``discount``."""
        columns = TransitionBatch.of(joined_samples(list(samples))).columns
        self._array(columns["obs"])
        table = {
            key: network_tensor(columns[key], bytes_as_floats=False).unflatten(0, shape)
            for key in ("obs", "action", "reward", "discount", "done", "is_first")
            if key in columns
        }
        self._look_at(table["obs"])
        batch = {"image": self.network_obs(table.pop("obs"))}
        batch |= {key: value.to(self.device, torch.float32) for key, value in table.items()}
        if "discount" not in batch:
            batch["discount"] = 1 - batch["done"]
        if self.action_type == "discrete":
            batch["action"] = F.one_hot(batch["action"].reshape(shape).long(), self.action_size).float()
        for key in ("action", "reward", "discount"):
            batch[key] = batch[key].unsqueeze(-1) if batch[key].dim() == 2 else batch[key]
        return batch

    def _array(self, obs: Any) -> torch.Tensor | np.ndarray:
        if isinstance(obs, torch.Tensor | np.ndarray):
            return obs
        found = f"a dict of {sorted(map(str, obs))}" if isinstance(obs, Mapping) else f"a {type(obs).__name__}"
        raise ConfigValueError(
            f"world_model.model.obs_type is {self.obs_type!r}, which takes arrays ({_FORMS[self.obs_type]}), but "
            f"observations are {found}: begin env.env_wrapper with {{'type': 'flatten_obs'}}, which makes vectors"
        )

    def _look_at(self, obs: torch.Tensor) -> None:
        """Refuse the first observations when they are out of the range that the heads predict."""
        if self._looked_at_obs:
            return
        self._looked_at_obs = True
        binary = self.obs_type == "vector" and self._vector_head == "binary" and not self.cfg.model.reference_numerics
        if not binary and (self.obs_type == "vector" or not obs.is_floating_point()):
            return
        low, high = float(obs.min()), float(obs.max())
        if low < 0 or high > 1:
            advice = "use world_model.model.vector_head='symlog'" if binary else "scale images, or give bytes"
            raise ConfigValueError(f"observations must lie in [0, 1], found {low:.4g} to {high:.4g}: {advice}")

    def training_state(self) -> StateDict:
        """Return the state of the optimizer, and whether the first trainings are still to come."""
        return {"optimizer": self.optimizer.state_dict(), "should_pretrain": self._should_pretrain}

    def load_training_state(self, state_dict: StateDict) -> None:
        """Restore what :meth:`training_state` returned."""
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self._should_pretrain = bool(state_dict["should_pretrain"])


def _clipping(limit: Any) -> dict[str, Any]:
    """The arguments of ``Adam`` for ``cfg.model.grad_clip``."""
    if limit is None:
        return {}
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
        raise ConfigValueError(f"world_model.model.grad_clip must be a positive number or None, found {limit!r}")
    return {"grad_clip_type": "clip_norm", "clip_value": float(limit)}


def _state_size(obs_type: str, size: Any) -> int | tuple[int, int, int]:
    """``cfg.model.state_size`` as it must be for ``obs_type``."""
    sizes = [size] if isinstance(size, int) else list(size or ())
    wanted = 1 if obs_type == "vector" else 3
    if len(sizes) != wanted or not all(isinstance(one, int) and one > 0 for one in sizes):
        form = "the length of the observations" if wanted == 1 else "(C, H, W)"
        raise ConfigValueError(
            f"world_model.model.state_size must be {form} with obs_type={obs_type!r}, found {size!r}"
        )
    return sizes[0] if wanted == 1 else (sizes[0], sizes[1], sizes[2])
