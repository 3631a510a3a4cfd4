#!/usr/bin/env python3
"""The hybrid job in PyTorch, to measure `troupe train` against.

One master, one parameter server and N trainers, a process each, on this machine's CPU. The server holds an EmbeddingBag
(sum) that the trainers reach as a RemoteModule over TensorPipe; behind it each trainer has an MLP under
DistributedDataParallel (gloo). Every step has its own distributed-autograd context, and a DistributedOptimizer (SGD,
0.05) updates what is local and what is remote.

--job tutorial  a table of 100 x 16, Linear(16, 8); a batch is 20 to 50 random indices in bags of 1 to 10
--job wide      a table of 1,000,000 x 64 with sparse gradients, layers 64-512-256-2; batches of 1024 bags of 26

Prints one JSON line. Only the training loop is timed: batches are made before, and the first --warm-up steps, in which
PyTorch builds its connections and buckets, are left out. All trainers begin and end together.
"""

import argparse
import json
import os
import random
import socket
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import autograd, rpc
from torch.distributed.nn.api.remote_module import RemoteModule
from torch.distributed.optim import DistributedOptimizer
from torch.nn.parallel import DistributedDataParallel

LEARNING_RATE = 0.05
RPC_TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Job:
    rows: int
    dim: int
    widths: tuple  # of the layers after the table
    batch: int = 0  # bags in a batch; 0: ragged ones
    bag: int = 0
    sparse: bool = False  # the table's gradients have only the touched rows
    steps: int = 1000
    warm_up: int = 50


JOBS = {
    "tutorial": Job(rows=100, dim=16, widths=(8,)),
    "wide": Job(rows=1_000_000, dim=64, widths=(512, 256, 2), batch=1024, bag=26, sparse=True, steps=30, warm_up=5),
}


def make_batch(job, numbers):
    """Indices, where each bag begins, and a target for each bag."""
    if job.batch:
        indices = torch.tensor([numbers.randrange(job.rows) for _ in range(job.batch * job.bag)])
        offsets = torch.arange(job.batch) * job.bag
    else:
        indices = torch.tensor([numbers.randrange(job.rows) for _ in range(numbers.randint(20, 50))])
        begins = [0]
        while (end := begins[-1] + numbers.randint(1, 10)) < len(indices):
            begins.append(end)
        offsets = torch.tensor(begins)
    targets = torch.tensor([numbers.randrange(job.widths[-1]) for _ in offsets])
    return indices, offsets, targets


def make_network(job):
    """Linear layers with ReLU between them."""
    layers = []
    for width_in, width_out in zip((job.dim, *job.widths), job.widths):
        layers += [nn.Linear(width_in, width_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train(rank, embedding, options):
    """A trainer's part, called by the master: seconds of the timed steps, and samples in them."""
    job = JOBS[options.job]
    dense = DistributedDataParallel(make_network(job))
    loss_of = nn.CrossEntropyLoss()
    remote = embedding.remote_parameters()
    local = [rpc.RRef(weight) for weight in dense.parameters()]
    optimizer = DistributedOptimizer(torch.optim.SGD, remote + local, lr=LEARNING_RATE)

    numbers = random.Random(options.seed * 1000 + rank)
    batches = [make_batch(job, numbers) for _ in range(options.warm_up + options.steps)]

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
    job = JOBS[options.job]
    embedding = RemoteModule(
        "server", nn.EmbeddingBag, args=(job.rows, job.dim), kwargs={"mode": "sum", "sparse": job.sparse})
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
        "job": options.job,
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
    parser.add_argument("--job", choices=JOBS, default="tutorial")
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--steps", type=int, help="timed steps (default: tutorial 1000, wide 30)")
    parser.add_argument("--warm-up", type=int, help="steps before the timed ones (default: tutorial 50, wide 5)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.steps is None:
        options.steps = JOBS[options.job].steps
    if options.warm_up is None:
        options.warm_up = JOBS[options.job].warm_up
    if min(options.trainers, options.steps) < 1 or options.warm_up < 0:
        parser.error("--trainers and --steps must be 1 or more, --warm-up 0 or more")
    torch.multiprocessing.spawn(run_role, args=(options, free_ports(2)), nprocs=options.trainers + 2)


if __name__ == "__main__":
    main()
