"""Policies as users of DI-engine write them: a shipped one with a ``_forward_learn`` of its own, which preprocesses the
samples itself, runs the wrapped networks, and reads the private attributes that DI-engine's policies have.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch.distributions import Categorical, Independent, Normal

from ding.policy import (
    A2CPolicy,
    C51Policy,
    DDPGPolicy,
    DiscreteSACPolicy,
    DQNPolicy,
    IMPALAPolicy,
    IQNPolicy,
    PGPolicy,
    PPOOffPolicy,
    PPOPolicy,
    QMIXPolicy,
    QRDQNPolicy,
    R2D2Policy,
    RainbowDQNPolicy,
    SACPolicy,
    TD3Policy,
)
from ding.policy.common_utils import default_preprocess_learn
from ding.rl_utils import (
    a2c_data,
    a2c_error,
    dist_nstep_td_data,
    dist_nstep_td_error,
    gae,
    gae_data,
    iqn_nstep_td_data,
    iqn_nstep_td_error,
    ppo_data,
    ppo_error,
    q_nstep_td_data,
    q_nstep_td_error,
    q_nstep_td_error_with_rescale,
    q_v_1step_td_data,
    q_v_1step_td_error,
    qrdqn_nstep_td_data,
    qrdqn_nstep_td_error,
    v_1step_td_data,
    v_1step_td_error,
    vtrace_data,
    vtrace_error_discrete_action,
)
from ding.torch_utils import to_device
from ding.utils import split_data_generator


def descend(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Own:
    """What all of them do first and last."""

    def _ready(self: Any, data: list[Any], use_nstep: bool = False) -> dict[str, Any]:
        assert isinstance(data, list)
        assert isinstance(data[0], dict)
        batch = default_preprocess_learn(
            data,
            use_priority=self._priority,
            use_priority_IS_weight=self._priority_IS_weight,
            ignore_done=self._cfg.learn.ignore_done,
            use_nstep=use_nstep,
        )
        self._learn_model.train()
        return to_device(batch, self._device) if self._cuda else batch

    def _followed(self: Any, loss: torch.Tensor, error: torch.Tensor) -> dict[str, Any]:
        descend(self._optimizer, loss)
        self._target_model.update(self._learn_model.state_dict())
        rate = self._optimizer.defaults["lr"]
        return {"cur_lr": rate, "total_loss": loss.item(), "priority": error.abs().tolist()}


class OwnDQN(Own, DQNPolicy):
    def _forward_learn(self, data):
        data = self._ready(data, use_nstep=True)
        self._target_model.train()
        q_value = self._learn_model.forward(data["obs"])["logit"]
        with torch.no_grad():
            target_q = self._target_model.forward(data["next_obs"])["logit"]
            best = self._learn_model.forward(data["next_obs"])["action"]
        td = q_nstep_td_data(q_value, target_q, data["action"], best, data["reward"], data["done"], data["weight"])
        return self._followed(
            *q_nstep_td_error(td, self._gamma, nstep=self._nstep, value_gamma=data.get("value_gamma"))
        )


class OwnC51(Own, C51Policy):
    def _renew(self) -> None:
        """C51 has no noise."""

    def _forward_learn(self, data):
        data = self._ready(data, use_nstep=True)
        self._target_model.train()
        self._renew()
        dist = self._learn_model.forward(data["obs"])["distribution"]
        with torch.no_grad():
            target = self._target_model.forward(data["next_obs"])["distribution"]
            self._renew()
            best = self._learn_model.forward(data["next_obs"])["action"]
        td = dist_nstep_td_data(dist, target, data["action"], best, data["reward"], data["done"], data["weight"])
        atoms = (self._v_min, self._v_max, self._n_atom)
        gammas = data.get("value_gamma")
        return self._followed(*dist_nstep_td_error(td, self._gamma, *atoms, nstep=self._nstep, value_gamma=gammas))


class OwnRainbow(OwnC51, RainbowDQNPolicy):
    def _renew(self) -> None:
        self._reset_noise(self._learn_model)
        self._reset_noise(self._target_model)


class OwnQRDQN(Own, QRDQNPolicy):
    def _forward_learn(self, data):
        data = self._ready(data, use_nstep=True)
        self._target_model.train()
        output = self._learn_model.forward(data["obs"])
        with torch.no_grad():
            target_q = self._target_model.forward(data["next_obs"])["q"]
            best = self._learn_model.forward(data["next_obs"])["action"]
        rest = (data["action"], best, data["reward"], data["done"], output["tau"], data["weight"])
        td = qrdqn_nstep_td_data(output["q"], target_q, *rest)
        return self._followed(
            *qrdqn_nstep_td_error(td, self._gamma, nstep=self._nstep, value_gamma=data.get("value_gamma"))
        )


class OwnIQN(Own, IQNPolicy):
    def _forward_learn(self, data):
        data = self._ready(data, use_nstep=True)
        self._target_model.train()
        output = self._learn_model.forward(data["obs"])
        with torch.no_grad():
            target_q = self._target_model.forward(data["next_obs"])["q"]
            best = self._learn_model.forward(data["next_obs"])["action"]
        rest = (data["action"], best, data["reward"], data["done"], output["quantiles"], data["weight"])
        td = iqn_nstep_td_data(output["q"], target_q, *rest)
        gammas = data.get("value_gamma")
        return self._followed(
            *iqn_nstep_td_error(td, self._gamma, nstep=self._nstep, kappa=self._kappa, value_gamma=gammas)
        )


class OwnR2D2(Own, R2D2Policy):
    def _forward_learn(self, data):
        data = self._data_preprocess_learn(data)
        learner, target = self._learn_model, self._target_model
        learner.train()
        target.train()
        for model in (learner, target):
            model.reset(data_id=None, state=data["prev_state"][0])
        cut = [self._burnin_step, self._burnin_step + self._nstep]
        with torch.no_grad():
            burnin = {"obs": data["burnin_nstep_obs"], "enable_fast_timestep": True}
            states = [model.forward(burnin, saved_state_timesteps=cut)["saved_state"] for model in (learner, target)]
        learner.reset(data_id=None, state=states[0][0])
        q_value = learner.forward({"obs": data["main_obs"], "enable_fast_timestep": True})["logit"]
        learner.reset(data_id=None, state=states[0][1])
        target.reset(data_id=None, state=states[1][1])
        following = {"obs": data["target_obs"], "enable_fast_timestep": True}
        with torch.no_grad():
            target_q, best = target.forward(following)["logit"], learner.forward(following)["action"]
        error = q_nstep_td_error_with_rescale if self._value_rescale else q_nstep_td_error
        losses, errors = [], []
        for t in range(self._sequence_len - self._burnin_step - self._nstep):
            fields = (data["action"][t], best[t], data["reward"][t].t(), data["done"][t], data["weight"][t])
            td = q_nstep_td_data(q_value[t], target_q[t], *fields)
            loss, each = error(td, self._gamma, self._nstep, value_gamma=data["value_gamma"][t])
            losses.append(loss)
            errors.append(each.abs())
        both = torch.stack(errors)
        return self._followed(sum(losses) / len(losses), 0.9 * both.max(0).values + 0.1 * both.mean(0))


class OwnQMIX(QMIXPolicy):
    def _forward_learn(self, data):
        data = self._data_preprocess_learn(data)
        learner, target = self._learn_model, self._target_model
        learner.train()
        target.train()
        for model in (learner, target):
            model.reset(state=data["prev_state"][0])
        total_q = learner.forward({"obs": data["obs"], "action": data["action"]}, single_step=False)["total_q"]
        following = {"obs": data["next_obs"]}
        if self._cfg.learn.double_q:
            learner.reset(state=data["prev_state"][1])
            logit = learner.forward(following, single_step=False)["logit"].detach()
            target.reset(state=data["prev_state"][1])
            following["action"] = logit.argmax(-1)
        with torch.no_grad():
            target_q = target.forward(following, single_step=False)["total_q"]
        td = v_1step_td_data(total_q, target_q, data["reward"], data["done"], data["weight"])
        loss, _ = v_1step_td_error(td, self._gamma)
        self._optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._cfg.learn.clip_value)
        self._optimizer.step()
        target.update(learner.state_dict())
        return {"cur_lr": self._optimizer.defaults["lr"], "total_loss": loss.item(), "grad_norm": norm}


class Clipped(Own):
    """One step of PPO."""

    def _unit(self: Any) -> Any:
        return self._running_mean_std.std if self._value_norm else 1.0

    def _minibatch(self: Any, batch: dict[str, Any]) -> dict[str, Any]:
        assert self._action_space == "discrete"
        output = self._learn_model.forward(batch["obs"], mode="compute_actor_critic")
        adv = batch["adv"]
        if self._adv_norm:
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        rest = (output["value"], batch["value"], adv, batch["return"], batch["weight"])
        fields = ppo_data(output["logit"], batch["logit"], batch["action"], *rest)
        loss, info = ppo_error(fields, self._clip_ratio)
        total = loss.policy_loss + self._value_weight * loss.value_loss - self._entropy_weight * loss.entropy_loss
        descend(self._optimizer, total)
        return {"cur_lr": self._optimizer.defaults["lr"], "total_loss": total.item(), "approx_kl": info.approx_kl}


class OwnPPO(Clipped, PPOPolicy):
    def _forward_learn(self, data):
        data, results = self._ready(data), []
        for _ in range(self._cfg.learn.epoch_per_collect):
            value, data["adv"] = self._value_and_adv(data)
            returns = value * self._unit() + data["adv"]
            data["value"], data["return"] = value, returns / self._unit()
            if self._value_norm:
                self._running_mean_std.update(returns.cpu().numpy())
            parts = split_data_generator(data, self._cfg.learn.batch_size, shuffle=True)
            results += [self._minibatch(part) for part in parts]
        if self._cfg.learn.lr_scheduler is not None:
            results[-1]["cur_lr"] = sum(self._lr_scheduler.get_last_lr())
            self._lr_scheduler.step()
        return results

    def _value_and_adv(self, data):
        if not self._recompute_adv:
            return data["value"], data["adv"]
        with torch.no_grad():
            value, next_value = (
                self._learn_model.forward(data[key], mode="compute_critic")["value"] for key in ("obs", "next_obs")
            )
            rest = (data["reward"], data["done"], data["traj_flag"])
            adv = gae(gae_data(value * self._unit(), next_value * self._unit(), *rest), self._gamma, self._gae_lambda)
        return value, adv


class OwnPPOOff(Clipped, PPOOffPolicy):
    def _forward_learn(self, data):
        assert not self._nstep_return
        data = self._ready(data, use_nstep=self._nstep_return)
        returns = data["value"] * self._unit() + data["adv"]
        data["return"] = returns / self._unit()
        if self._value_norm:
            self._running_mean_std.update(returns.cpu().numpy())
        return self._minibatch(data)


class OwnA2C(Own, A2CPolicy):
    def _forward_learn(self, data):
        data = self._ready(data)
        for batch in split_data_generator(data, self._cfg.learn.batch_size, shuffle=True):
            output = self._learn_model.forward(batch["obs"], mode="compute_actor_critic")
            adv, returns = batch["adv"], batch["value"] + batch["adv"]
            if self._adv_norm:
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            fields = (output["logit"], batch["action"], output["value"], adv, returns, batch["weight"])
            loss = a2c_error(a2c_data(*fields))
            total = loss.policy_loss + self._value_weight * loss.value_loss - self._entropy_weight * loss.entropy_loss
            self._optimizer.zero_grad()
            total.backward()
            norm = torch.nn.utils.clip_grad_norm_(self._learn_model.parameters(), max_norm=self._grad_norm)
            self._optimizer.step()
        return {"cur_lr": self._optimizer.param_groups[0]["lr"], "total_loss": total.item(), "grad_norm": float(norm)}


class OwnPG(Own, PGPolicy):
    def _forward_learn(self, data):
        data, results = self._ready(data), []
        for batch in split_data_generator(data, self._cfg.learn.batch_size, shuffle=True):
            dist = self._learn_model.forward(batch["obs"])["dist"]
            gain = (dist.log_prob(batch["action"]) * batch["return"]).mean()
            total = -gain - self._entropy_weight * dist.entropy().mean()
            self._optimizer.zero_grad()
            total.backward()
            torch.nn.utils.clip_grad_norm_(list(self._learn_model.parameters()), max_norm=self._grad_norm)
            self._optimizer.step()
            results.append({"cur_lr": self._optimizer.param_groups[0]["lr"], "total_loss": total.item()})
        return results


class OwnIMPALA(IMPALAPolicy):
    def _forward_learn(self, data):
        data = self._data_preprocess_learn(data)
        self._learn_model.train()
        obs = data["obs_plus_1"]
        output = self._learn_model.forward(obs.view(-1, *obs.shape[2:]), mode="compute_actor_critic")
        target, behaviour, action, value, reward, weight = self._reshape_data(output, data)
        assert target.shape == (self._unroll_len, obs.shape[1], self._action_shape)
        ratios = (self._rho_clip_ratio, self._c_clip_ratio, self._rho_pg_clip_ratio)
        fields = vtrace_data(target, behaviour, action, value, reward, weight)
        loss = vtrace_error_discrete_action(fields, self._gamma, self._lambda, *ratios)
        total = loss.policy_loss + self._value_weight * loss.value_loss - self._entropy_weight * loss.entropy_loss
        descend(self._optimizer, total)
        return {"cur_lr": self._optimizer.defaults["lr"], "total_loss": total.item()}


class OwnDDPG(Own, DDPGPolicy):
    def _forward_learn(self, data):
        data = self._ready(data)
        self._target_model.train()
        reward = data["reward"]
        if self._reward_batch_norm:
            reward = (reward - reward.mean()) / (reward.std() + 1e-8)
        q_value = self._learn_model.forward(data, mode="compute_critic")["q_value"]
        with torch.no_grad():
            following = self._target_model.forward(data["next_obs"], mode="compute_actor")
            following["obs"] = data["next_obs"]
            target_q = self._target_model.forward(following, mode="compute_critic")["q_value"]
            target_q = torch.minimum(*target_q) if self._twin_critic else target_q
            goal = reward + self._gamma * (1 - data["done"]) * target_q
        critic_loss = sum(F.mse_loss(q, goal) for q in (q_value if self._twin_critic else [q_value]))
        descend(self._optimizer_critic, critic_loss)
        if (self._forward_learn_cnt + 1) % self._actor_update_freq == 0:
            acted = self._learn_model.forward(data["obs"], mode="compute_actor")
            acted["obs"] = data["obs"]
            q_value = self._learn_model.forward(acted, mode="compute_critic")["q_value"]
            descend(self._optimizer_actor, -(q_value[0] if self._twin_critic else q_value).mean())
        self._forward_learn_cnt += 1
        self._target_model.update(self._learn_model.state_dict())
        return {"cur_lr_actor": self._optimizer_actor.defaults["lr"], "critic_loss": critic_loss.item()}


class OwnTD3(OwnDDPG, TD3Policy):
    """The same with two critics, a slow actor and noise."""


class Tempered(Own):
    """One step of the temperature."""

    def _learn_alpha(self: Any, log_prob: torch.Tensor) -> None:
        if not self._auto_alpha:
            return
        gap = log_prob.detach() + self._target_entropy
        if self._log_space:
            descend(self._alpha_optim, -(self._log_alpha * gap).mean())
        else:
            descend(self._alpha_optim, -(self._alpha * gap).mean())


class OwnSAC(Tempered, SACPolicy):
    def _forward_learn(self, data):
        data = self._ready(data)
        self._target_model.train()
        q_value = self._learn_model.forward(data, mode="compute_critic")["q_value"]
        with torch.no_grad():
            action, log_prob = self._draw(data["next_obs"])
            following = {"obs": data["next_obs"], "action": action}
            target_q = self._target_model.forward(following, mode="compute_critic")["q_value"]
            target_v = (torch.minimum(*target_q) if self._twin_critic else target_q) - self._alpha * log_prob
        critics = q_value if self._twin_critic else [q_value]
        rest = (target_v, data["reward"], data["done"], data["weight"])
        losses = [v_1step_td_error(v_1step_td_data(q, *rest), self._gamma)[0] for q in critics]
        descend(self._optimizer_q, sum(losses))
        action, log_prob = self._draw(data["obs"])
        q_value = self._learn_model.forward({"obs": data["obs"], "action": action}, mode="compute_critic")["q_value"]
        q_value = torch.minimum(*q_value) if self._twin_critic else q_value
        descend(self._optimizer_policy, (self._alpha * log_prob - q_value).mean())
        self._learn_alpha(log_prob)
        self._forward_learn_cnt += 1
        self._target_model.update(self._learn_model.state_dict())
        return {"cur_lr_q": self._optimizer_q.defaults["lr"], "alpha": self._alpha.item()}

    def _draw(self, obs):
        mu, sigma = self._learn_model.forward(obs, mode="compute_actor")["logit"]
        dist = Independent(Normal(mu, sigma), 1)
        raw = dist.rsample()
        action = torch.tanh(raw)
        return action, dist.log_prob(raw) - (1 - action.pow(2) + 1e-6).log().sum(-1)


class OwnDiscreteSAC(Tempered, DiscreteSACPolicy):
    def _forward_learn(self, data):
        data = self._ready(data)
        self._target_model.train()
        q_value = self._learn_model.forward(data["obs"], mode="compute_critic")["q_value"]
        with torch.no_grad():
            chance, log_prob = self._chances(data["next_obs"])
            target_q = self._target_model.forward(data["next_obs"], mode="compute_critic")["q_value"]
            target_q = torch.minimum(*target_q) if self._twin_critic else target_q
            target_v = (chance * (target_q - self._alpha * log_prob)).sum(-1)
        rest = (target_v, data["action"], data["reward"], data["done"], data["weight"])
        critics = q_value if self._twin_critic else [q_value]
        losses = [q_v_1step_td_error(q_v_1step_td_data(q, *rest), self._gamma)[0] for q in critics]
        descend(self._optimizer_q, sum(losses))
        chance, log_prob = self._chances(data["obs"])
        with torch.no_grad():
            q_value = self._learn_model.forward(data["obs"], mode="compute_critic")["q_value"]
            q_value = torch.minimum(*q_value) if self._twin_critic else q_value
        descend(self._optimizer_policy, (chance * (self._alpha * log_prob - q_value)).sum(-1).mean())
        self._learn_alpha((chance * log_prob).sum(-1))
        self._target_model.update(self._learn_model.state_dict())
        return {"cur_lr_q": self._optimizer_q.defaults["lr"], "alpha": self._alpha.item()}

    def _chances(self, obs):
        dist = Categorical(logits=self._learn_model.forward(obs, mode="compute_actor")["logit"])
        return dist.probs, dist.logits
