"""data.py WHAT: what happens outside of steps.

sampler  an epoch of a DistributedSampler: rank 0's share, of two, of a million rows, in batches of 1024
state    state_dict of a Linear(5000, 5000), 100 MB, by torch.save into a file of the current folder, by torch.load out
         of it, and by load_state_dict into the module. Debian has no package of safetensors for Python

Prints WHAT and the microseconds.
"""

import os
import sys

import processes
import torch
from torch import nn
from torch.utils.data import BatchSampler, DistributedSampler


def read_epochs():
    sampler = DistributedSampler(range(1_000_000), num_replicas=2, rank=0)
    batches = BatchSampler(sampler, 1024, drop_last=False)
    epoch = 0

    def one():
        nonlocal epoch
        sampler.set_epoch(epoch)
        epoch += 1
        assert sum(len(rows) for rows in batches) == 500_000

    return processes.microseconds(one, 3, 1)


def keep_state():
    model = nn.Linear(5000, 5000)
    file = "state.pt"

    def one():
        torch.save(model.state_dict(), file)
        model.load_state_dict(torch.load(file))

    time = processes.microseconds(one, 3, 1)
    os.remove(file)
    return time


if __name__ == "__main__":
    torch.set_num_threads(1)
    processes.tell(sys.argv[1], {"sampler": read_epochs, "state": keep_state}[sys.argv[1]]())
