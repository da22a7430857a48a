"""Driving to a target with hybrid actions: a pedal and its strength.

The task and its constants are those of ``Moving-v0`` and ``Sliding-v0`` of the package gym-hybrid, which does not run
on current Python versions. A sliding agent adds its velocities as vectors, whereas the formula of that package mixes
speeds and angles. Importing this module registers the envs with Gymnasium.
"""

from typing import Any

import gymnasium
import numpy as np

from ding.envs.gymnasium_types import Reset, Step

ACCELERATE, TURN, BRAKE = range(3)


class HybridMoveEnv(gymnasium.Env[np.ndarray, Any]):
    """Stop inside a circle on a square field without leaving the field.

    An action is ``(pedal, parameters)``: accelerate by the first parameter in [0, 1] (times 0.5), turn by the second in
    [-1, 1] (times a quarter turn), or brake, which reduces the speed by 0.1, to at least 0. After each action the agent
    moves by 0.005 of its speed. Agent, target and heading are initially random, the speed is 0.

    The observation is float32 ``(10,)``: x, y, speed, cosine and sine of the heading, x and y of the target, the
    distance to it, whether that is below 0.1, and the fraction of the steps used.

    The reward is the decrease of the distance minus 0.001; stopping in the circle adds 1 and ends the episode. Leaving
    the field, or exceeding 200 steps, gives -1 instead and also ends it (as a termination, because the observation
    contains the fraction of the steps used). The agent starts anywhere on the field; the target's circle is inside of
    it.

    Args:
        slides: Whether turning keeps the direction of movement, so that only acceleration changes it.
        render_mode: ``rgb_array`` or ``None``.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}
    max_steps, field, radius = 200, 1.0, 0.1
    max_acceleration, max_turn, brake, seconds, penalty = 0.5, np.pi / 2, 0.1, 0.005, 0.001

    def __init__(self, slides: bool = False, render_mode: str | None = None) -> None:
        self.slides = slides
        self.render_mode = render_mode
        low, high = np.array([0.0, -1.0], dtype=np.float32), np.ones(2, dtype=np.float32)
        self.action_space = gymnasium.spaces.Tuple(
            (gymnasium.spaces.Discrete(3), gymnasium.spaces.Box(low, high, dtype=np.float32))
        )
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (10,), np.float32)
        self._position = self._target = self._velocity = np.zeros(2)
        self._heading = 0.0
        self._num_steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Place agent and target at random."""
        super().reset(seed=seed)
        room = self.field - self.radius
        self._target = self.np_random.uniform(-room, room, 2)
        self._position = self.np_random.uniform(-self.field, self.field, 2)
        self._heading = float(self.np_random.uniform(0.0, 2 * np.pi))
        self._velocity = np.zeros(2)
        self._num_steps = 0
        return self._obs(), {}

    def step(self, action: Any) -> Step:
        """Apply a pedal and move."""
        pedal, parameters = int(action[0]), np.asarray(action[1], dtype=np.float64).reshape(2)
        before = self._distance()
        self._use(pedal, parameters)
        self._position = self._position + self.seconds * self._velocity
        self._num_steps += 1
        reward = before - self._distance() - self.penalty
        won = self._distance() < self.radius and not self._velocity.any()
        lost = not won and (bool((np.abs(self._position) > self.field).any()) or self._num_steps > self.max_steps)
        return self._obs(), -1.0 if lost else reward + won, won or lost, False, {}

    def _use(self, pedal: int, parameters: np.ndarray) -> None:
        speed = float(np.linalg.norm(self._velocity))
        if pedal == ACCELERATE:
            self._velocity = self._velocity + self.max_acceleration * np.clip(parameters[0], 0.0, 1.0) * self._ahead()
        elif pedal == TURN:
            self._heading = (self._heading + self.max_turn * float(np.clip(parameters[1], -1.0, 1.0))) % (2 * np.pi)
            if not self.slides:
                self._velocity = speed * self._ahead()
        elif pedal == BRAKE:
            self._velocity = self._velocity * (max(speed - self.brake, 0.0) / speed if speed else 0.0)
        else:
            raise ValueError(f"a hybrid action begins with 0 (accelerate), 1 (turn) or 2 (brake), found {pedal}")

    def _ahead(self) -> np.ndarray:
        return np.array([np.cos(self._heading), np.sin(self._heading)])

    def _distance(self) -> float:
        return float(np.linalg.norm(self._position - self._target))

    def _obs(self) -> np.ndarray:
        distance = self._distance()
        return np.array(
            [
                *self._position,
                np.linalg.norm(self._velocity),
                *self._ahead(),
                *self._target,
                distance,
                distance < self.radius,
                self._num_steps / self.max_steps,
            ],
            dtype=np.float32,
        )

    def render(self) -> np.ndarray:
        """Return the field from above, uint8 ``[128, 128, 3]``: a green target, and a red agent with a black nose."""
        x, y = np.meshgrid(np.linspace(-1, 1, 128), np.linspace(1, -1, 128))
        image = np.full((128, 128, 3), 255, dtype=np.uint8)
        nose = self._position + 0.05 * self._ahead()
        for centre, radius, colour in (
            (self._target, self.radius, (120, 200, 120)),
            (self._position, 0.05, (200, 60, 60)),
            (nose, 0.025, (0, 0, 0)),
        ):
            image[np.hypot(x - centre[0], y - centre[1]) < radius] = colour
        return image


for name, slides in (("Moving", False), ("Sliding", True)):
    gymnasium.register(f"{name}-v0", f"{__name__}:HybridMoveEnv", kwargs={"slides": slides})
