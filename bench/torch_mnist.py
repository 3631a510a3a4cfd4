#!/usr/bin/env python3
"""The network of apps/examples/mnist.toml in PyTorch, data-parallel by DistributedDataParallel (gloo).

torch_mnist.py [--trainers N] [--batch B] [--steps N]               random images: prints samples/s of all trainers
torch_mnist.py --data FOLDER [--seed S] [--epochs N] [...]          MNIST's files: prints the accuracy on the test images

A trainer is a process with one thread. Prints one JSON line. Steps that build connections and buckets are not timed.
"""

import argparse
import json
import os
import socket
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WARM_UP = 20
SIDE = 28


def normalised(channels):
    """Batch normalisation without scale, and ReLU."""
    norm = nn.BatchNorm2d(channels, eps=1e-3)
    norm.weight.requires_grad_(False)
    return [norm, nn.ReLU()]


def make_network():
    return nn.Sequential(nn.Conv2d(1, 12, 3, padding=1, bias=False), *normalised(12),
                         nn.Conv2d(12, 24, 6, stride=2, bias=False), *normalised(24),
                         nn.Conv2d(24, 32, 6, stride=2, padding=2), *normalised(32),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(32, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10))


def read_images(folder, part):
    """Images [n, 1, 28, 28] from 0 to 1, and labels, of the plain IDX files."""
    images = numpy.fromfile(os.path.join(folder, f"{part}-images-idx3-ubyte"), dtype=numpy.uint8)[16:]
    labels = numpy.fromfile(os.path.join(folder, f"{part}-labels-idx1-ubyte"), dtype=numpy.uint8)[8:]
    return torch.tensor(images.reshape(-1, 1, SIDE, SIDE)).float() / 255, torch.tensor(labels.astype(numpy.int64))


class Trainer:
    def __init__(self, rank, options):
        torch.manual_seed(options.seed)  # the same weights on all ranks
        self.network = make_network()
        self.model = DistributedDataParallel(self.network) if options.trainers > 1 else self.network
        trained = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=1e-3)
        torch.manual_seed(options.seed * 1000 + rank)  # different masks on each

    def step(self, images, labels):
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(images), labels).backward()
        self.optimizer.step()


def measure(rank, options):
    images, labels = torch.rand(2048, 1, SIDE, SIDE), torch.randint(0, 10, (2048,))
    trainer = Trainer(rank, options)

    def steps(count):
        for i in range(count):
            first = i * options.batch % (len(images) - options.batch)
            trainer.step(images[first:first + options.batch], labels[first:first + options.batch])

    steps(WARM_UP)
    if options.trainers > 1:
        dist.barrier()
    begin = time.perf_counter()
    steps(options.steps)
    if options.trainers > 1:
        dist.barrier()
    return {"samples_per_s": round(options.trainers * options.batch * options.steps / (time.perf_counter() - begin))}


def train(rank, options):
    images, labels = read_images(options.data, "train")
    trainer = Trainer(rank, options)
    for epoch in range(options.epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(options.seed * 1000 + epoch))
        mine = order[rank::options.trainers]
        for first in range(0, len(mine), options.batch):
            some = mine[first:first + options.batch]
            trainer.step(images[some], labels[some])
    trainer.network.eval()
    tests, answers = read_images(options.data, "t10k")
    with torch.no_grad():
        right = (trainer.network(tests).argmax(1) == answers).sum().item()
    return {"seed": options.seed, "accuracy": right / len(answers)}


def work(rank, options, port):
    torch.set_num_threads(1)
    if options.trainers > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=rank, world_size=options.trainers)
    found = train(rank, options) if options.data else measure(rank, options)
    if rank == 0:
        print(json.dumps(found), flush=True)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--data")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    if options.trainers == 1:
        return work(0, options, 0)
    torch.multiprocessing.spawn(work, (options, free_port()), options.trainers)


if __name__ == "__main__":
    main()
