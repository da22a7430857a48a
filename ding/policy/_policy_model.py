"""The network of a policy: made, put on its device, and stepped."""

import copy

import torch
from easydict import EasyDict

from ding.model import create_model
from ding.policy._distributed import average_gradients, broadcast_module, rank, world_size
from ding.policy._policy_state import PolicyState
from ding.policy.errors import PolicyConfigError
from ding.torch_utils.threads import apply_fitted_num_threads


class PolicyModel(PolicyState):
    """The part of :class:`~ding.policy.Policy` that owns the network."""

    _model: torch.nn.Module
    _enable_field: list[str]
    _rank = 0
    _cuda = False
    _multi_gpu = False
    _device = "cpu"

    def _init_model(self, model: torch.nn.Module | None) -> None:
        model = self._create_model(self._cfg, model)
        self._cuda = bool(self._cfg.cuda) and torch.cuda.is_available()
        # Replicas exist where learning does: one that only collects or evaluates waits for no other process.
        self._multi_gpu = "learn" in self._enable_field and bool(self._cfg.multi_gpu)
        if self._multi_gpu:
            self._rank = rank()
        if self._cuda:
            index = self._rank % torch.cuda.device_count()
            torch.cuda.set_device(index)
            self._device = f"cuda:{index}"
            model.cuda()
        self._model = model
        if self._multi_gpu:
            self._init_multi_gpu_setting(model, bool(self._cfg.bp_update_sync))
        self._fit_num_threads(model)

    def _create_model(self, cfg: EasyDict, model: torch.nn.Module | None = None) -> torch.nn.Module:
        """The given network, or a new one of ``cfg.model``."""
        if model is None:
            model_cfg = copy.deepcopy(cfg.model)
            if "type" not in model_cfg:
                model_cfg.type, model_cfg.import_names = self.default_model()
            return create_model(model_cfg)
        if not isinstance(model, torch.nn.Module):
            raise PolicyConfigError(f"model must be a torch.nn.Module, found {type(model).__name__}")
        return model

    def _fit_num_threads(self, model: torch.nn.Module) -> None:
        threads = self._cfg.get("num_threads")
        if threads is not None:
            if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
                raise PolicyConfigError(f"policy.num_threads must be a positive int or None, found {threads!r}")
            torch.set_num_threads(threads)
        elif not self._cuda:
            apply_fitted_num_threads(model, self._get_batch_size() or 1)

    def _init_multi_gpu_setting(self, model: torch.nn.Module, bp_update_sync: bool) -> None:
        """Start all replicas from the parameters of rank 0."""
        self._bp_update_sync = bp_update_sync
        broadcast_module(model)

    def sync_gradients(self, model: torch.nn.Module) -> None:
        """Average the gradients of ``model`` over all processes; nothing to do in a single one."""
        if world_size() > 1:
            average_gradients(model.parameters())

    def _optimize(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> None:
        """One optimiser step on ``loss``. The one place where gradients of several processes meet."""
        _forget_gradients(optimizer)
        loss.backward()
        if self._multi_gpu:
            self.sync_gradients(model)
        optimizer.step()

    @staticmethod
    def _set_train(model: torch.nn.Module, flag: bool) -> None:
        """Put ``model`` in train or eval mode; free when it is there already."""
        if model.training is not flag:
            if isinstance(model, torch.nn.Module):
                _set_mode(model, flag)
            else:
                model.train(flag)

    def default_model(self) -> tuple[str, list[str]]:
        """Registered name of the default network and the modules to import for it.

        Raises:
            PolicyConfigError: this policy has none (a ``RuntimeError``).
        """
        raise PolicyConfigError(f"{type(self).__name__} has no default model: give a model, or policy.model.type")


def _set_mode(module: torch.nn.Module, flag: bool) -> None:
    """``module.train(flag)`` at a fifth of its cost; collecting and learning in turn do this all the time.

    A module with a ``train`` of its own is asked to do it by itself.
    """
    state = module.__dict__
    if type(module).train is not torch.nn.Module.train or "train" in state:
        module.train(flag)
        return
    state["training"] = flag
    for child in state["_modules"].values():
        if child is not None:
            _set_mode(child, flag)


def _forget_gradients(optimizer: torch.optim.Optimizer) -> None:
    """``optimizer.zero_grad(set_to_none=True)`` without torch's profiling around it, which costs five times as much."""
    if type(optimizer).zero_grad is not torch.optim.Optimizer.zero_grad:
        optimizer.zero_grad(set_to_none=True)
        return
    for group in optimizer.param_groups:
        for param in group["params"]:
            param.grad = None
