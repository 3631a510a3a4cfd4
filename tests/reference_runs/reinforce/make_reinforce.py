#!/usr/bin/env python3
"""Makes reinforce.safetensors, what tests hold apps/examples/cart_pole.hpp and apps/examples/policy_gradient.hpp to; README.md
describes it.

    make_reinforce.py [FILE]    writes it (default: beside this script)

The cart and the pole are derived here from their equations of motion (Lagrange's), which are solved as two linear equations
for both accelerations at every step; the gradient is PyTorch's autograd, in float64.
"""

import json
import math
import random
import struct
import sys
from pathlib import Path

import torch

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, TAU = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
STEPS_MAX = 500
FEATURES, HIDDEN, DISCOUNT = 4, 32, 0.9


def accelerations(state, force):
    """Of the cart's place and of the pole's angle: those that satisfy

        (M + m) x" + m l cos(a) a" = F + m l sin(a) a'^2
        m l cos(a) x" + (4/3) m l^2 a" = m g l sin(a)

    where l is half the pole's length, which is a thin rod."""
    _, _, angle, turning = state
    couples = POLE * HALF_LENGTH * math.cos(angle)
    matrix = [[CART + POLE, couples], [couples, 4 / 3 * POLE * HALF_LENGTH**2]]
    right = [force + POLE * HALF_LENGTH * math.sin(angle) * turning**2, POLE * GRAVITY * HALF_LENGTH * math.sin(angle)]
    determinant = matrix[0][0] * matrix[1][1] - matrix[0][1] * matrix[1][0]
    return ((right[0] * matrix[1][1] - right[1] * matrix[0][1]) / determinant,
            (right[1] * matrix[0][0] - right[0] * matrix[1][0]) / determinant)


def moved(state, to_the_right):
    place, turn = accelerations(state, FORCE if to_the_right else -FORCE)
    rates = [state[1], place, state[3], turn]
    return [x + TAU * rate for x, rate in zip(state, rates)]


def has_fallen(state):
    return abs(state[0]) > 2.4 or abs(state[2]) > math.radians(12)


def episode(begin, choose):
    states, pushes = [begin], []
    while len(pushes) < STEPS_MAX and not has_fallen(states[-1]):
        pushes.append(int(choose(states[-1], len(pushes))))
        states.append(moved(states[-1], pushes[-1]))
    return states, pushes


def episodes():
    drawn = random.Random(20)
    yield episode([0.01, -0.02, 0.03, 0.04], lambda state, step: True)
    yield episode([-0.04, 0.03, -0.01, 0.02], lambda state, step: step % 2 == 0)
    yield episode([0.02, 0.05, -0.03, -0.05], lambda state, step: drawn.random() < 0.5)
    yield episode([0.0, 0.01, 0.02, -0.01],  # reaches the step limit
                  lambda state, step: 0.3 * state[0] + 0.5 * state[1] + 10 * state[2] + 2 * state[3] > 0)
    yield episode([0.03, 0.01, 0.04, 0.02],  # leaves the rail
                  lambda state, step: 10 * (state[2] - 0.05) + 2 * state[3] > 0)


def gradient():
    """Three environments, whose episodes take 7, 3 and 5 steps, with rewards of any size."""
    made = torch.Generator().manual_seed(21)

    def draw(*shape):
        return torch.rand(*shape, generator=made, dtype=torch.float64).float().double() * 2 - 1

    w1, b1, w2, b2 = [draw(*shape).requires_grad_() for shape in ((FEATURES, HIDDEN), (HIDDEN,), (HIDDEN,), (1,))]
    rows = [(step, environment) for step in range(7) for environment, length in enumerate((7, 3, 5)) if step < length]
    states, rewards = draw(len(rows), FEATURES), draw(len(rows))
    actions = (draw(len(rows)) > 0).long()
    returns = [sum(DISCOUNT**(rows[later][0] - step) * rewards[later].item() for later in range(len(rows))
                   if rows[later][1] == environment and rows[later][0] >= step) for step, environment in rows]
    together = [[one for one, row in enumerate(rows) if row[0] == step] for step, _ in rows]
    advantages = torch.tensor([mine - sum(returns[i] for i in all) / len(all) for mine, all in zip(returns, together)],
                              dtype=torch.float64)
    advantages /= advantages.square().mean().sqrt()
    logits = torch.relu(states @ w1 + b1) @ w2 + b2
    both = torch.log_softmax(torch.stack([torch.zeros_like(logits), logits], 1), 1)
    loss = -(advantages * both.gather(1, actions[:, None])[:, 0]).mean()
    loss.backward()
    return {"gradient.weights": torch.cat([one.detach().flatten() for one in (w1, b1, w2, b2)]).float(),
            "gradient.step": torch.tensor([step for step, _ in rows]),
            "gradient.environment": torch.tensor([environment for _, environment in rows]),
            "gradient.states": states.float(), "gradient.actions": actions, "gradient.rewards": rewards,
            "gradient.advantages": advantages, "gradient.probabilities": both.exp()[:, 1].detach(),
            "gradient.expected": torch.cat([one.grad.flatten() for one in (w1, b1, w2, b2)])}


def write_safetensors(path, tensors):
    kinds = {torch.float32: ("F32", "f"), torch.float64: ("F64", "d"), torch.int64: ("I64", "q")}
    header, data = {}, b""
    for name, tensor in tensors.items():
        kind, code = kinds[tensor.dtype]
        content = struct.pack(f"<{tensor.numel()}{code}", *tensor.flatten().tolist())
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    tensors = {}
    for number, (states, pushes) in enumerate(episodes()):
        print(f"episode {number}: {len(pushes)} steps, ends at {states[-1]}")
        tensors[f"episode.{number}.states"] = torch.tensor(states, dtype=torch.float64)
        tensors[f"episode.{number}.pushes"] = torch.tensor(pushes)
    tensors.update(gradient())
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("reinforce.safetensors")
    write_safetensors(path, tensors)


if __name__ == "__main__":
    main()
