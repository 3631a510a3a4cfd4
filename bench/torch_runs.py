#!/usr/bin/env python3
"""The hybrid model's whole training loop in PyTorch on GPU 0, to measure `troupe train --device cuda` against.

Tables as EmbeddingBag (sum), an MLP (64 for each table, 512, 256, 2) with ReLU, cross entropy, SGD, in float32. A
thread makes the batches on the host, in pinned memory; they are copied to the device asynchronously.

--mode eager   EmbeddingBag(sparse=True) and SGD
--mode graphs  torch.cuda.graph of the whole step. SGD with sparse gradients is not made for that, so there the tables'
               rows are updated by `index_add_` of the bags' gradient: atomics, so sums have no fixed order

Prints one JSON line: {"steps_per_s": ..., "samples_per_s": ...}; or why it is skipped, where there is no GPU.
"""

import argparse
import json
import queue
import sys
import threading
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as missing:
    print(f"skipped: PyTorch is not installed ({missing})")
    sys.exit(0)

DIM = 64
LEARNING_RATE = 0.05
WARM_UP_STEPS = 50
PORTIONS = 4  # number of batch portions between the thread and the device
PORTION_SAMPLES = 16_384  # small batches are made and passed on in groups


class Batches:
    """Batches that a thread makes ahead: indices of all tables and then classes, one after another."""

    def __init__(self, options):
        self.indices = options.tables * options.batch * options.bag
        self.rows = options.rows
        shape = (max(1, PORTION_SAMPLES // options.batch), self.indices + options.batch)
        self.free, self.ready = queue.Queue(), queue.Queue()
        for _ in range(PORTIONS):
            self.free.put((torch.empty(shape, dtype=torch.int64).pin_memory(), torch.cuda.Event()))
        threading.Thread(target=self.make, daemon=True).start()

    def make(self):
        while True:
            portion, copied = self.free.get()
            copied.synchronize()
            torch.randint(0, self.rows, portion.shape, out=portion)
            portion[:, self.indices:] %= 2
            self.ready.put((portion, copied))

    def copies_to(self, device_batch):
        """Begins to copy the next batch, each time it is asked for one."""
        while True:
            portion, copied = self.ready.get()
            for batch in portion:
                device_batch.copy_(batch, non_blocking=True)
                yield
            copied.record()
            self.free.put((portion, copied))


class Model:
    """The model, and the place of the batch that it steps on."""

    def __init__(self, options, device):
        torch.manual_seed(1)
        count = options.tables * options.batch * options.bag
        self.batch = torch.zeros(count + options.batch, dtype=torch.int64, device=device)
        self.indices = self.batch[:count].view(options.tables, -1)
        self.classes = self.batch[count:]
        self.bag = options.bag
        self.offsets = torch.arange(options.batch, device=device) * options.bag
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(options.rows, DIM, mode="sum", sparse=True, device=device) for _ in range(options.tables))
        self.dense = nn.Sequential(
            nn.Linear(options.tables * DIM, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 2))
        self.dense.to(device)
        self.of_tables = torch.optim.SGD(self.tables.parameters(), lr=LEARNING_RATE)
        self.of_dense = torch.optim.SGD(self.dense.parameters(), lr=LEARNING_RATE)
        self.loss = None

    def backward(self, pooled):
        features = torch.cat(pooled, 1) if len(pooled) > 1 else pooled[0]
        self.loss = F.cross_entropy(self.dense(features), self.classes)
        self.loss.backward()

    def eager(self):
        self.of_tables.zero_grad()
        self.of_dense.zero_grad()
        self.backward([table(indices, self.offsets) for table, indices in zip(self.tables, self.indices)])
        self.of_tables.step()
        self.of_dense.step()

    def capturable(self):
        self.of_dense.zero_grad()
        weights = [table.weight.detach() for table in self.tables]
        pooled = [F.embedding_bag(indices, weight, self.offsets, mode="sum").requires_grad_()
                  for weight, indices in zip(weights, self.indices)]
        self.backward(pooled)
        for weight, indices, bags in zip(weights, self.indices, pooled):
            of_indices = bags.grad[:, None, :].expand(-1, self.bag, -1).reshape(-1, DIM)
            weight.index_add_(0, indices, of_indices, alpha=-LEARNING_RATE)
        self.of_dense.step()

    def captured(self):
        """A call that replays the step's graph."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                self.capturable()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.capturable()
        return graph.replay


def measure(options):
    model = Model(options, "cuda")
    step = model.eager if options.mode == "eager" else model.captured()
    copies = Batches(options).copies_to(model.batch)
    for _ in range(WARM_UP_STEPS):
        next(copies)
        step()
    torch.cuda.synchronize()
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < options.seconds:
        next(copies)
        step()
        steps += 1
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    if not model.loss.isfinite():
        raise RuntimeError(f"the loss is {model.loss}")
    return {"steps_per_s": steps / seconds, "samples_per_s": steps * options.batch / seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("batch", 1024), ("tables", 1), ("bag", 26), ("rows", 1_000_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--mode", choices=("eager", "graphs"), default="eager")
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    if min(options.batch, options.tables, options.bag, options.rows) < 1 or not options.seconds > 0:
        parser.error("--batch, --tables, --bag and --rows must be 1 or more, and --seconds more than 0")
    if not torch.cuda.is_available():
        print(f"skipped: PyTorch {torch.__version__} finds no CUDA device")
        return
    print(json.dumps(measure(options)))


if __name__ == "__main__":
    main()
