"""What the scripts beside this one share: processes of one run, and times."""

import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed import rpc

RPC_TIMEOUT_SECONDS = 300


def free_ports(count):
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _enter(rank, names, trainers, ports, main, arguments):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("TP_SOCKET_IFNAME", "lo")
    if rank < trainers:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{ports[0]}", rank=rank, world_size=trainers)
    if len(names) > trainers:
        options = rpc.TensorPipeRpcBackendOptions(
            init_method=f"tcp://127.0.0.1:{ports[1]}", rpc_timeout=RPC_TIMEOUT_SECONDS)
        rpc.init_rpc(names[rank], rank=rank, world_size=len(names), rpc_backend_options=options)
    if rank < trainers:
        main(rank, *arguments)
    if len(names) > trainers:
        rpc.shutdown()


def run(trainers, main, *arguments, server=False):
    """Runs main(rank, *arguments) in each of some processes of one Gloo group; with `server`, beside a process of that
    name which answers remote calls."""
    names = [f"trainer{rank}" for rank in range(trainers)] + (["server"] if server else [])
    torch.multiprocessing.spawn(_enter, (names, trainers, free_ports(2), main, arguments), nprocs=len(names))


def microseconds(do, count, warm_up):
    """The mean time of a call, of those after the first ones."""
    for _ in range(warm_up):
        do()
    begin = time.perf_counter()
    for _ in range(count):
        do()
    return (time.perf_counter() - begin) / count * 1e6


def tell(what, value):
    print(f"{what} {value:.3f}", flush=True)
