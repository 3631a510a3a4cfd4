#!/usr/bin/env python3
"""What PyTorch reaches on GPU 0 at what bench_gpu measures: the same sizes, bytes and operations, the same table.

copy, lookup  as in bench_gpu (`F.embedding_bag`, mode sum); from a bf16 table PyTorch pools to bf16
update        from the gradient of the bags to updated rows: a sparse gradient made as EmbeddingBag(sparse=True) makes
              it, then the optimizer; PyTorch has no row-wise Adagrad
linear        `F.linear` and ReLU, and the products of its backward pass; bf16 keeps all its numbers in bf16, where
              bench_gpu keeps float32. `matmul` is the product alone: what cuBLAS reaches at that shape
step          eager: EmbeddingBag(sparse=True) and SGD, bf16 by autocast. graphs: torch.cuda.graph of the whole step.
              SGD with sparse gradients is not made for that, so there the table's rows are updated by `index_add_`
              of the bags' gradient, the least that PyTorch can do: atomics, so sums have no fixed order

The host's time is that until a step's calls have returned, on an idle device.
"""

import argparse
import json
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as missing:
    print(f"skipped: PyTorch is not installed ({missing})")
    sys.exit(0)

TURNS = 4  # inputs rotate, so that a call finds none of its own in the cache
ROUNDS = 7
ROUND_SECONDS = 0.02
BAG = 26
DIM = 128
HYBRID_DIM = 64
LEARNING_RATE = 0.05
PRECISIONS = ("f32", "tf32", "bf16")


class Report:
    """Prints figures as they come, as lines of a table or of JSON."""

    def __init__(self, as_json):
        self.as_json = as_json
        if not as_json:
            self.line("item", "what", "ms", "rate", "unit", "limit %", "host us")

    def add(self, item, what, seconds, rate, unit, limit=None, host_seconds=None):
        share = 100 * rate / limit if limit else None
        host = 1e6 * host_seconds if host_seconds else None
        if self.as_json:
            figure = {"item": item, "what": what, "ms": 1e3 * seconds, "rate": rate, "unit": unit, "limit_pct": share}
            print(json.dumps({**figure, "host_us": host}), flush=True)
        else:
            percent = "" if share is None else f"{share:.1f}"
            us = "" if host is None else f"{host:.1f}"
            self.line(item, what, f"{1e3 * seconds:.4f}", f"{rate:.1f}", unit, percent, us)
        return rate

    @staticmethod
    def line(item, what, ms, rate, unit, share, host):
        print(f"{item:<7} {what:<36} {ms:>10} {rate:>12} {unit:<9} {share:>7} {host:>8}", flush=True)


def seconds_of(call):
    """Seconds of one of the calls call(0), call(1), ...: the median of rounds between two waits for the device."""
    turn = 0

    def seconds_of_round(calls):
        nonlocal turn
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call(turn % TURNS)
            turn += 1
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / calls

    seconds_of_round(2 * TURNS)
    calls = TURNS
    while seconds_of_round(calls) * calls < ROUND_SECONDS:
        calls *= 2
    return statistics.median(seconds_of_round(calls) for _ in range(ROUNDS))


def host_seconds_of(call):
    """Median seconds until a call has returned, with nothing left to do on the device."""
    seconds = []
    for i in range(64):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call(i % TURNS)
        seconds.append(time.perf_counter() - begin)
    torch.cuda.synchronize()
    return statistics.median(seconds)


def numbers(*shape, dtype=torch.float32):
    return torch.rand(*shape, device="cuda").mul_(2).sub_(1).to(dtype)


def expect(what, got, want, tolerance):
    if not torch.allclose(got.float(), want.float(), rtol=tolerance, atol=tolerance):
        raise RuntimeError(f"{what}: {got} instead of {want}")


class Sizes:
    def __init__(self, scale):
        self.copied = max(1, (1 << 28) // scale)  # floats
        self.rows = max(1, 1_000_000 // scale)
        self.batch = max(1, 65_536 // scale)
        self.side = max(64, 8192 // scale)


class Lookups:
    """Bags of random rows, a batch for each turn."""

    def __init__(self, sizes):
        self.indices = torch.randint(0, sizes.rows, (TURNS, sizes.batch * BAG), device="cuda")
        self.offsets = torch.arange(sizes.batch, device="cuda") * BAG
        self.count = sizes.batch * BAG

    def distinct_rows(self):
        return statistics.mean(len(one.unique()) for one in self.indices)


def per_index(grad):
    """The gradient of each index of the bags."""
    return grad[:, None, :].expand(-1, BAG, -1).reshape(-1, grad.shape[1])


def measure_copy(sizes, report):
    source = numbers(sizes.copied)
    copy = torch.empty_like(source)
    seconds = seconds_of(lambda _: copy.copy_(source))
    expect("copy", copy[-8:], source[-8:], 0)
    size = 4 * sizes.copied
    return report.add("copy", f"{size} bytes", seconds, 2 * size / seconds / 1e9, "GB/s")


def measure_lookup(sizes, report, lookups, dtype, copy_rate):
    table = numbers(sizes.rows, DIM, dtype=dtype)

    def call(turn):
        return F.embedding_bag(lookups.indices[turn], table, lookups.offsets, mode="sum")

    expect("lookup", call(0)[-1], table[lookups.indices[0][-BAG:]].float().sum(0), 0.1)
    width = table.element_size()
    size = lookups.count * (DIM * width + 8) + sizes.batch * (DIM * width + 8)
    seconds = seconds_of(call)
    name = {torch.float32: "f32", torch.bfloat16: "bf16"}[dtype]
    what = f"{sizes.rows} x {DIM} {name}, bags of {BAG}"
    report.add("lookup", what, seconds, size / seconds / 1e9, "GB/s", copy_rate)


def measure_update(sizes, report, lookups, name, copy_rate):
    table = nn.Parameter(numbers(sizes.rows, DIM))
    columns, optimizer = {
        "sgd": (0, torch.optim.SGD),
        "adagrad": (DIM, torch.optim.Adagrad),
    }[name]
    optimizer = optimizer([table], lr=LEARNING_RATE)
    grads = numbers(TURNS, sizes.batch, DIM)

    def call(turn):
        table.grad = torch.sparse_coo_tensor(
            lookups.indices[turn][None], per_index(grads[turn]), table.shape, check_invariants=False)
        optimizer.step()

    row = lookups.indices[0][-1]
    before = table[row].detach().clone()
    call(0)
    gradient = per_index(grads[0])[lookups.indices[0] == row].sum(0)
    step = gradient if name == "sgd" else gradient / (gradient.abs() + 1e-10)
    expect("update", table[row].detach(), before - LEARNING_RATE * step, 1e-3)
    seconds = seconds_of(call)
    size = 4 * (lookups.count * DIM + 2 * lookups.distinct_rows() * (DIM + columns))
    report.add("update", f"{sizes.rows} x {DIM}, {name}", seconds, size / seconds / 1e9, "GB/s", copy_rate)


def set_precision(precision):
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def measure_layer(report, precision, batch, width_in, width_out, limit):
    """All passes with a limit; without one, the forward pass and the product alone. Returns the product's rate."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    x, y = numbers(TURNS, batch, width_in, dtype=dtype), numbers(TURNS, batch, width_out, dtype=dtype)
    weight, bias = numbers(width_out, width_in, dtype=dtype), numbers(width_out, dtype=dtype)
    transposed = weight.t()
    passes = {
        "matmul": lambda turn: x[turn] @ transposed,
        "forward": lambda turn: F.relu(F.linear(x[turn], weight, bias)),
        "inputs": lambda turn: y[turn] @ weight,
        "parameters": lambda turn: (y[turn].t() @ x[turn], y[turn].sum(0)),
    }
    want = x[0, 0].double() @ transposed.double()
    expect("product", passes["matmul"](0)[0], want, 0.05 * max(1, width_in) ** 0.5)
    rates = []
    for name, call in passes.items():
        if limit is None and name not in ("matmul", "forward"):
            continue
        seconds = seconds_of(call)
        rate = 2 * batch * width_in * width_out / seconds / 1e12
        what = f"{batch} {width_in} to {width_out}, {precision} {name}"
        rates.append(report.add("linear", what, seconds, rate, "TFLOP/s", limit))
    return rates[0]


def measure_layers(sizes, report, precision):
    set_precision(precision)
    limit = measure_layer(report, precision, sizes.side, sizes.side, sizes.side, None)
    for width_in, width_out in ((64, 512), (512, 256)):
        measure_layer(report, precision, sizes.batch, width_in, width_out, limit)


class HybridStep:
    """The hybrid model and batches of which the turns have one each, with SGD."""

    def __init__(self, sizes, lookups, precision):
        torch.manual_seed(1)
        self.lookups, self.bf16 = lookups, precision == "bf16"
        self.bags = nn.EmbeddingBag(sizes.rows, HYBRID_DIM, mode="sum", sparse=True, device="cuda")
        self.dense = nn.Sequential(
            nn.Linear(HYBRID_DIM, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 2)).cuda()
        self.classes = torch.randint(0, 2, (TURNS, sizes.batch), device="cuda")
        self.of_bags = torch.optim.SGD(self.bags.parameters(), lr=LEARNING_RATE)
        self.of_dense = torch.optim.SGD(self.dense.parameters(), lr=LEARNING_RATE)
        self.loss = None

    def backward(self, turn, pooled):
        with torch.autocast("cuda", torch.bfloat16, enabled=self.bf16, cache_enabled=False):
            self.loss = F.cross_entropy(self.dense(pooled), self.classes[turn])
        self.loss.backward()

    def eager(self, turn):
        self.of_bags.zero_grad()
        self.of_dense.zero_grad()
        self.backward(turn, self.bags(self.lookups.indices[turn], self.lookups.offsets))
        self.of_bags.step()
        self.of_dense.step()

    def capturable(self, turn):
        self.of_dense.zero_grad()
        table, indices = self.bags.weight.detach(), self.lookups.indices[turn]
        pooled = F.embedding_bag(indices, table, self.lookups.offsets, mode="sum").requires_grad_()
        self.backward(turn, pooled)
        table.index_add_(0, indices, per_index(pooled.grad), alpha=-LEARNING_RATE)
        self.of_dense.step()

    def captured(self):
        """A call that replays a turn's graph."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for turn in range(TURNS):
                self.capturable(turn)
        torch.cuda.current_stream().wait_stream(aside)
        graphs = []
        for turn in range(TURNS):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.capturable(turn)
            graphs.append(graph)
        return lambda turn: graphs[turn].replay()


def measure_steps(sizes, report, lookups, precision):
    set_precision(precision)
    for name in ("eager", "graphs"):
        step = HybridStep(sizes, lookups, precision)
        call = step.eager if name == "eager" else step.captured()
        seconds = seconds_of(call)
        host_seconds = host_seconds_of(call)
        if not step.loss.isfinite():
            raise RuntimeError(f"the step's loss is {step.loss}")
        report.add("step", f"{precision}, {name}", seconds, sizes.batch / seconds, "samples/s",
                   host_seconds=host_seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=1, help="divides tables and batches")
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    options = parser.parse_args()
    if options.scale < 1:
        parser.error("--scale must be 1 or more")
    if not torch.cuda.is_available():
        print(f"skipped: PyTorch {torch.__version__} finds no CUDA device")
        return
    name = torch.cuda.get_device_name(0)
    print(f"{name}, PyTorch {torch.__version__}, scale {options.scale}", file=sys.stderr, flush=True)
    torch.manual_seed(3)
    report, sizes = Report(options.json), Sizes(options.scale)
    lookups = Lookups(sizes)
    copy_rate = measure_copy(sizes, report)
    for dtype in (torch.float32, torch.bfloat16):
        measure_lookup(sizes, report, lookups, dtype, copy_rate)
    for optimizer in ("sgd", "adagrad"):
        measure_update(sizes, report, lookups, optimizer, copy_rate)
    for precision in PRECISIONS:
        measure_layers(sizes, report, precision)
    for precision in PRECISIONS:
        measure_steps(sizes, report, lookups, precision)


if __name__ == "__main__":
    main()
