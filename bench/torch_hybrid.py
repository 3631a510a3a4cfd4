#!/usr/bin/env python3
"""The tutorial job in PyTorch, to measure `troupe train --data tutorial` against.

One master, one parameter server and N trainers, a process each, on this machine's CPU. The server holds an
EmbeddingBag(100, 16, sum) that the trainers reach as a RemoteModule over TensorPipe; behind it each trainer has a
Linear(16, 8) under DistributedDataParallel (gloo). Every step has its own distributed-autograd context, and a
DistributedOptimizer (SGD, 0.05) updates what is local and what is remote. A batch is 20 to 50 random indices in bags of
1 to 10, each bag with a target out of 8 classes.

Prints one JSON line. Only the training loop is timed: batches are made before, and the first --warm-up steps, in which
PyTorch builds its connections and buckets, are left out. All trainers begin and end together.
"""

import argparse
import json
import os
import random
import socket
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import autograd, rpc
from torch.distributed.nn.api.remote_module import RemoteModule
from torch.distributed.optim import DistributedOptimizer
from torch.nn.parallel import DistributedDataParallel

ROWS, DIM, CLASSES = 100, 16, 8
LEARNING_RATE = 0.05
RPC_TIMEOUT_SECONDS = 300


def make_batch(numbers):
    """Indices, where each bag begins, and a target for each bag."""
    indices = [numbers.randrange(ROWS) for _ in range(numbers.randint(20, 50))]
    offsets = [0]
    while (end := offsets[-1] + numbers.randint(1, 10)) < len(indices):
        offsets.append(end)
    targets = [numbers.randrange(CLASSES) for _ in offsets]
    return torch.tensor(indices), torch.tensor(offsets), torch.tensor(targets)


def train(rank, embedding, options):
    """A trainer's part, called by the master: seconds of the timed steps, and samples in them."""
    dense = DistributedDataParallel(nn.Linear(DIM, CLASSES))
    loss_of = nn.CrossEntropyLoss()
    remote = embedding.remote_parameters()
    local = [rpc.RRef(weight) for weight in dense.parameters()]
    optimizer = DistributedOptimizer(torch.optim.SGD, remote + local, lr=LEARNING_RATE)

    numbers = random.Random(options.seed * 1000 + rank)
    batches = [make_batch(numbers) for _ in range(options.warm_up + options.steps)]

    def run(some):
        dist.barrier()
        begin = time.perf_counter()
        for indices, offsets, targets in some:
            with autograd.context() as context:
                loss = loss_of(dense(embedding.forward(indices, offsets)), targets)
                autograd.backward(context, [loss])
                optimizer.step(context)
        dist.barrier()
        return time.perf_counter() - begin

    run(batches[:options.warm_up])
    timed = batches[options.warm_up:]
    return run(timed), sum(len(targets) for _, _, targets in timed)


def lead(options):
    """The master's part: sets the table up, starts the trainers, reports."""
    embedding = RemoteModule("server", nn.EmbeddingBag, args=(ROWS, DIM), kwargs={"mode": "sum"})
    running = [
        rpc.rpc_async(f"trainer{rank}", train, args=(rank, embedding, options), timeout=0)
        for rank in range(options.trainers)
    ]
    results = [one.wait() for one in running]
    seconds = max(result[0] for result in results)
    samples = sum(result[1] for result in results)
    line = {
        "event": "done",
        "torch": torch.__version__,
        "trainers": options.trainers,
        "steps": options.steps,
        "seconds": seconds,
        "steps_per_s": options.steps / seconds,
        "samples_per_s": samples / seconds,
    }
    print(json.dumps(line), flush=True)


def run_role(number, options, ports):
    """The life of one process: the trainers are the first numbers, then the server, then the master."""
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ.setdefault("TP_SOCKET_IFNAME", "lo")
    trainers = options.trainers
    names = [f"trainer{rank}" for rank in range(trainers)] + ["server", "master"]
    if number < trainers:
        dist.init_process_group(
            "gloo", init_method=f"tcp://127.0.0.1:{ports[0]}", rank=number, world_size=trainers)
    rpc.init_rpc(
        names[number],
        rank=number,
        world_size=len(names),
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
            init_method=f"tcp://127.0.0.1:{ports[1]}", rpc_timeout=RPC_TIMEOUT_SECONDS),
    )
    if names[number] == "master":
        lead(options)
    rpc.shutdown()


def free_ports(count):
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1000, help="timed steps (default: 1000, as the tutorial has)")
    parser.add_argument("--warm-up", type=int, default=50, help="steps before the timed ones (default: 50)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if min(options.trainers, options.steps) < 1 or options.warm_up < 0:
        parser.error("--trainers and --steps must be 1 or more, --warm-up 0 or more")
    torch.multiprocessing.spawn(run_role, args=(options, free_ports(2)), nprocs=options.trainers + 2)


if __name__ == "__main__":
    main()
