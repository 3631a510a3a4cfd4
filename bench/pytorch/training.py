"""training.py WHAT: steps of an MLP (256-512-512-10, cross-entropy, SGD) in two processes, a batch of 32 for each.

ddp      DistributedDataParallel over Gloo
no_sync  the batch in four parts, three of them under no_sync: gradients are exchanged once

Prints WHAT and the microseconds of a step.
"""

import contextlib
import sys

import processes
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH = 32
PARTS = 4


def measure(rank, what):
    network = nn.Sequential(
        nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loss_of = nn.CrossEntropyLoss()
    x = torch.randn(BATCH, 256)
    y = torch.arange(BATCH) % 10

    def whole():
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()

    def in_parts():
        optimizer.zero_grad()
        for part, (some, wanted) in enumerate(zip(x.chunk(PARTS), y.chunk(PARTS))):
            with contextlib.nullcontext() if part == PARTS - 1 else model.no_sync():
                (loss_of(model(some), wanted) / PARTS).backward()
        optimizer.step()

    time = processes.microseconds(whole if what == "ddp" else in_parts, 300, 30)
    if rank == 0:
        processes.tell(what, time)


if __name__ == "__main__":
    processes.run(2, measure, sys.argv[1])
