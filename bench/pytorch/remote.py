"""remote.py WHAT: what is asked of another process of this machine, over TensorPipe, one call after the other.

call     a function that does nothing
forward  256 bags of 8 rows from an EmbeddingBag(100000, 64, mode="sum") that is a RemoteModule, without gradients

Prints WHAT and the microseconds of a call.
"""

import sys

import processes
import torch
from torch import nn
from torch.distributed import rpc
from torch.distributed.nn.api.remote_module import RemoteModule


def nothing():
    pass


def measure(rank, what):
    if what == "call":
        processes.tell(what, processes.microseconds(lambda: rpc.rpc_sync("server", nothing), 2000, 100))
        return
    table = RemoteModule("server", nn.EmbeddingBag, args=(100_000, 64), kwargs={"mode": "sum"})
    indices = torch.arange(256 * 8) * 7919 % 100_000
    offsets = torch.arange(256) * 8
    with torch.no_grad():
        processes.tell(what, processes.microseconds(lambda: table.forward(indices, offsets), 1000, 50))


if __name__ == "__main__":
    processes.run(1, measure, sys.argv[1], server=True)
