"""collectives.py BYTES: the sum of float32 of two processes by all_reduce over Gloo. Prints all_reduce:BYTES and the
microseconds of one."""

import sys

import processes
import torch
import torch.distributed as dist


def measure(rank, size):
    x = torch.ones(size // 4)
    count = max(20, min(2000, 2**28 // size // 4))
    time = processes.microseconds(lambda: dist.all_reduce(x), count, count // 10 + 1)
    if rank == 0:
        processes.tell(f"all_reduce:{size}", time)


if __name__ == "__main__":
    processes.run(2, measure, int(sys.argv[1]))
