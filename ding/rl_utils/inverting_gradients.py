"""Gradients that keep bounded actions off their bounds (Hausknecht and Stone 2016, arXiv:1511.04143)."""

import torch


def invert_gradients(args: torch.Tensor) -> torch.Tensor:
    """The same arguments ``[B, M]`` in ``[-1, 1]``, the tanh of a network's output, with another gradient.

    The derivative of tanh is 0 at both bounds, so that an argument that has run to one of them stays there, whatever
    the critic learns later. Here the gradient of the network's output is that of the argument times the part of the
    range that is left in the direction of the step: 0 towards the bound, and whole on the way back.
    """
    inverted = args.view_as(args)
    if inverted.requires_grad:
        inverted.register_hook(lambda grad: _inverted(grad, args.detach()))
    return inverted


def keep_within(values: torch.Tensor, bound: float) -> torch.Tensor:
    """The same values ``[B, K]``, which a network puts out as they are, with gradients that keep them in ``[-bound,
    bound]``: each times the part of the range that is left in the direction of the step, and against it outside.
    """
    kept = values.view_as(values)
    if kept.requires_grad:
        limited = values.detach()
        kept.register_hook(lambda grad: grad * torch.where(grad < 0, bound - limited, bound + limited) / (2 * bound))
    return kept


def _inverted(grad: torch.Tensor, args: torch.Tensor) -> torch.Tensor:
    """What tanh, whose derivative is ``(1 + args) (1 - args)``, turns into ``grad`` times half of one of them."""
    # A step goes against the gradient. At a bound itself, where rounding has left nothing to divide by, it is 0.
    behind = torch.where(grad < 0, 1 + args, 1 - args)
    return grad / (2 * behind.clamp(min=1e-6))
