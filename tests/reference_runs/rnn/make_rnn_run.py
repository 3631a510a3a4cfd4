#!/usr/bin/env python3
"""Makes rnn.safetensors, the first steps of apps/examples/rnn.cpp, with PyTorch in float64; README.md describes the file.

    make_rnn_run.py [FILE]    writes it (default: beside this script)

Prints how far the losses of the same run in float32 are from it, and of one that does not carry the state.
"""

import math
import sys
from pathlib import Path

import torch
from make_layer_runs import write_safetensors
from torch import nn
from torch.nn import functional

SENTENCE, WORDS = 7, 16
TRAINERS, TEXTS, CHUNK, WIDTH, HIDDEN = 2, 8, 10, 16, 32
STEPS = 40
ODD, MASK = 0x9E3779B97F4A7C15, 2**64 - 1


def word(text, place):
    mixed = ((text << 32 | place // SENTENCE) * ODD) & MASK
    choice = (((mixed ^ mixed >> 32) * ODD) & MASK) >> 58
    many, subject, verb, thing, last = choice & 1, choice >> 1 & 1, choice >> 2 & 1, choice >> 3 & 3, choice >> 5 & 1
    return [2 * many + subject, 4 + 2 * many + verb, thing, 8, 9 + many, 11 + 2 * many + last, 15][place % SENTENCE]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.lstm = nn.LSTM(WIDTH, HIDDEN, batch_first=True)
        self.decoder = nn.Linear(HIDDEN, WORDS)

    def forward(self, words, state):
        outputs, state = self.lstm(self.embedding(words), state)
        return self.decoder(outputs), state


def losses_of(initial, dtype, steps=STEPS, carries=True):
    model = Model()
    model.load_state_dict(initial)
    model.to(dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    state, losses = None, []
    for step in range(steps):
        places = torch.tensor([[word(text, place) for place in range(step * CHUNK, (step + 1) * CHUNK + 1)]
                               for text in range(TRAINERS * TEXTS)])
        scores, state = model(places[:, :-1], state if carries else None)
        state = tuple(one.detach() for one in state)
        loss = functional.cross_entropy(scores.reshape(-1, WORDS), places[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def main():
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "rnn.safetensors"
    torch.set_num_threads(1)
    torch.manual_seed(45)
    initial = Model().state_dict()
    losses = losses_of(initial, torch.float64)
    for what, others in (("in float32", losses_of(initial, torch.float32)),
                         ("without its state", losses_of(initial, torch.float64, carries=False))):
        print(f"{what} {(others - losses).abs().max():.1e} from it")
    write_safetensors(path, {"made_with": f"PyTorch {torch.__version__}, float64"}, {**initial, "loss": losses})


if __name__ == "__main__":
    main()
