"""The round trip of a lookup in another process in PyTorch, to measure `troupe bench lookup` against.

Two processes on this machine, TensorPipe RPC over loopback. The second one keeps a table of 100,000 rows; the first asks
for rows by index and waits for them. Prints a JSON line for each size: the median in microseconds, and the bandwidth of
the rows' bytes over it.
"""

import json
import os
import socket
import statistics
import time

import torch
import torch.multiprocessing
from torch.distributed import rpc

ROWS = 100_000
SIZES = [(16, 16, 2000), (1024, 64, 1000), (26_624, 64, 60)]
WARM_UP = 20

tables = {}


def rows_of(dim, indices):
    if dim not in tables:
        tables[dim] = torch.randn(ROWS, dim)
    return tables[dim][indices]


def round_trips(dim, indices, count):
    for _ in range(count):
        begin = time.perf_counter()
        rpc.rpc_sync("server", rows_of, args=(dim, indices))
        yield (time.perf_counter() - begin) * 1e6


def run(rank, port):
    torch.set_num_threads(1)
    os.environ.setdefault("TP_SOCKET_IFNAME", "lo")
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}", rpc_timeout=600)
    rpc.init_rpc("server" if rank else "client", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        for rows, dim, repeats in SIZES:
            indices = torch.randint(0, ROWS, (rows,))
            list(round_trips(dim, indices, WARM_UP))
            us = statistics.median(round_trips(dim, indices, repeats))
            print(json.dumps({"rows": rows, "dim": dim, "us": us, "gb_per_s": rows * dim * 4 / us / 1000}), flush=True)
    rpc.shutdown()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    torch.multiprocessing.spawn(run, args=(free_port(),), nprocs=2)
