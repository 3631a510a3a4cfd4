#!/usr/bin/env python3
"""Makes reference runs of networks given as layers, with PyTorch in float64; README.md describes the files.

    make_layer_runs.py [FOLDER]    writes them all (default: this folder)

Prints, for each run, how far the same run in float32 is from it: a run that is sensitive to rounding, such as one whose
optimizer scales up a gradient that is zero but for rounding, would be no reference, so more than 1e-5 is an error.

No run has dropout: its random numbers are Troupe's own.
"""

import copy
import json
import struct
import subprocess
import sys
import tomllib
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

EXAMPLES = Path(__file__).parent.parent.parent / "apps" / "examples"
EVAL_SAMPLES = 8
FLOAT32_ERROR_MAX = 1e-5


def layer(kind, **options):
    return {"kind": kind, **options}


def run(seed, trainers, steps, batch, loss, outputs, sample, layers, **optimizer):
    return {"trainers": trainers, "steps": steps, "seed": seed, "batch": batch, "input": sample, "outputs": outputs,
            "loss": loss, "layers": layers, "dense_optimizer": optimizer}


def in_micro_batches(count, made):
    return {**made, "micro_batches": count}


RUNS = {
    "conv_max_pool": run(
        31, 2, 8, 8, "cross_entropy", 4, [1, 10, 10],
        [layer("conv2d", out_channels=4, kernel=3, padding=1), layer("relu"),
         layer("max_pool2d", kernel=3, stride=2), layer("conv2d", out_channels=6, kernel=2), layer("relu"),
         layer("flatten"), layer("linear", out=4)],
        kind="sgd", lr=0.05, momentum=0.9),
    "conv_avg_pool": run(
        32, 1, 10, 9, "mse", 3, [2, 9, 9],
        [layer("conv2d", out_channels=5, kernel=3, stride=2, padding=1), layer("gelu"),
         layer("avg_pool2d", kernel=2), layer("flatten"), layer("linear", out=3)],
        kind="adam", lr=0.003),
    "batch_norm_features": run(
        33, 3, 12, 10, "bce_logits", 2, [12],
        [layer("linear", out=16, bias=False), layer("batch_norm"), layer("relu"),
         layer("linear", out=8, bias=False), layer("batch_norm", scale=False, eps=0.001, momentum=0.3), layer("gelu"),
         layer("linear", out=2)],
        kind="adagrad", lr=0.02, initial_accumulator_value=0.1),
    "batch_norm_images": run(
        34, 2, 8, 6, "cross_entropy", 5, [3, 6, 6],
        [layer("batch_norm", momentum=0.2), layer("conv2d", out_channels=6, kernel=3, padding=1, bias=False),
         layer("batch_norm", eps=0.0001, momentum=0.05), layer("relu"), layer("global_avg_pool2d"),
         layer("linear", out=5)],
        kind="adam", lr=0.005, betas=[0.8, 0.99]),
    "layer_norm_gelu": run(
        35, 3, 15, 8, "mse", 4, [20],
        [layer("linear", out=24), layer("gelu"), layer("layer_norm", eps=0.001), layer("linear", out=24),
         layer("gelu"), layer("layer_norm"), layer("linear", out=4)],
        kind="sgd", lr=0.05, momentum=0.9, nesterov=True),
    "cross_deep": run(
        36, 1, 20, 16, "bce_logits", 1, [16],
        [layer("low_rank_cross", rank=4, layers=4), layer("linear", out=12), layer("relu"), layer("layer_norm"),
         layer("linear", out=1)],
        kind="adam", lr=0.005, weight_decay=0.01),
    "residual_images": run(
        37, 2, 8, 8, "cross_entropy", 6, [2, 6, 6],
        [layer("conv2d", out_channels=4, kernel=3, padding=1, bias=False),
         layer("residual", layers=[
             layer("conv2d", out_channels=4, kernel=3, padding=1, bias=False), layer("batch_norm"), layer("relu"),
             layer("conv2d", out_channels=4, kernel=3, padding=1), layer("batch_norm", scale=False)]),
         layer("relu"), layer("global_avg_pool2d"), layer("linear", out=6)],
        kind="sgd", lr=0.1, momentum=0.8),
    "residual_features": run(
        38, 3, 10, 12, "mse", 2, [10],
        [layer("linear", out=14),
         layer("residual", layers=[layer("layer_norm"),
                                   layer("residual", layers=[layer("linear", out=14), layer("gelu")]),
                                   layer("linear", out=14)]),
         layer("residual", layers=[layer("batch_norm", momentum=0.5), layer("relu"), layer("linear", out=14)]),
         layer("linear", out=2)],
        kind="adagrad", lr=0.02),
    "strided_windows": run(
        39, 2, 8, 7, "bce_logits", 3, [2, 11, 7],
        [layer("max_pool2d", kernel=2, stride=1), layer("conv2d", out_channels=4, kernel=3, stride=2, padding=2),
         layer("batch_norm"), layer("gelu"), layer("avg_pool2d", kernel=3, stride=1), layer("flatten"),
         layer("linear", out=3)],
        kind="sgd", lr=0.1, weight_decay=0.01),
    "conv_cross": run(
        40, 1, 10, 12, "cross_entropy", 3, [1, 12, 12],
        [layer("conv2d", out_channels=4, kernel=5, padding=2), layer("relu"),
         layer("avg_pool2d", kernel=3, stride=2),
         layer("residual", layers=[layer("batch_norm"), layer("relu"),
                                   layer("conv2d", out_channels=4, kernel=1, bias=False)]),
         layer("max_pool2d", kernel=2), layer("flatten"), layer("batch_norm", scale=False, momentum=0.02),
         layer("low_rank_cross", rank=3, layers=2), layer("linear", out=3)],
        kind="adagrad", lr=0.02, initial_accumulator_value=0.01),
    "micro_batch_features": in_micro_batches(3, run(
        41, 2, 12, 11, "bce_logits", 2, [9],
        [layer("linear", out=12, bias=False), layer("batch_norm", momentum=0.3), layer("relu"), layer("linear", out=8),
         layer("layer_norm"), layer("gelu"), layer("linear", out=2)],
        kind="adam", lr=0.004)),
    "micro_batch_images": in_micro_batches(4, run(
        42, 3, 8, 10, "cross_entropy", 4, [2, 6, 5],
        [layer("conv2d", out_channels=5, kernel=3, padding=1, bias=False), layer("batch_norm", scale=False),
         layer("relu"), layer("max_pool2d", kernel=2),
         layer("residual", layers=[layer("batch_norm", momentum=0.2), layer("gelu"),
                                   layer("conv2d", out_channels=5, kernel=1)]),
         layer("global_avg_pool2d"), layer("linear", out=4)],
        kind="sgd", lr=0.1, momentum=0.9)),
    "lstm_rows": run(
        43, 2, 10, 8, "cross_entropy", 4, [1, 7, 6],
        [layer("lstm", hidden=10), layer("lstm", hidden=9, last=True), layer("linear", out=4)],
        kind="adam", lr=0.01),
    "lstm_features": run(
        44, 1, 12, 9, "mse", 3, [20],
        [layer("lstm", hidden=8, steps=5),
         layer("residual", layers=[layer("lstm", hidden=8), layer("gelu")]), layer("flatten"), layer("linear", out=3)],
        kind="sgd", lr=0.1, momentum=0.9),
    "grouped_windows": run(
        45, 2, 8, 7, "cross_entropy", 4, [4, 9, 8],
        [layer("conv2d", out_channels=6, kernel=3, dilation=2, padding=2, groups=2), layer("gelu"),
         layer("conv2d", out_channels=6, kernel=2, groups=6, stride=2, bias=False), layer("relu"),
         layer("conv2d", out_channels=9, kernel=3, dilation=3, padding=3, groups=3), layer("flatten"),
         layer("linear", out=4)],
        kind="sgd", lr=0.05, momentum=0.9),
    "attention_rows": run(
        46, 2, 8, 6, "mse", 3, [1, 5, 16],
        [layer("multi_head_attention", heads=8), layer("residual", layers=[
            layer("layer_norm"), layer("multi_head_attention", heads=1, causal=True)]),
         layer("linear", out=6), layer("relu"), layer("multi_head_attention", heads=2, steps=5), layer("flatten"),
         layer("linear", out=3)],
        kind="sgd", lr=0.01, momentum=0.9),
    "next_word": run(
        47, 2, 10, 16, "cross_entropy", 16, [8],
        tomllib.loads((EXAMPLES / "next_word.toml").read_text())["layers"],
        kind="sgd", lr=0.05, momentum=0.9),
}
# Runs whose samples are rows of an example's data.
TEXTS = {"next_word": "next_word.sh"}


# -- layers, named as in files
# ------------------------------------------------------------------------------------------


class LowRankCross(nn.Module):
    def __init__(self, width, rank, layers):
        super().__init__()
        self.v = nn.ParameterList(nn.Parameter(torch.randn(rank, width) / width**0.5) for _ in range(layers))
        self.w = nn.ParameterList(nn.Parameter(torch.randn(width, rank) / rank**0.5) for _ in range(layers))
        self.b = nn.ParameterList(nn.Parameter(0.1 * torch.randn(width)) for _ in range(layers))

    def forward(self, x0):
        x = x0
        for v, w, b in zip(self.v, self.w, self.b):
            x = x0 * (x @ v.T @ w.T + b) + x
        return x


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Lstm(nn.LSTM):
    """Through `steps` steps, or as many as the sample has rows."""

    def __init__(self, shape, hidden, steps=None, last=False):
        self.steps = steps or shape[-2]
        self.last = last
        super().__init__(torch.Size(shape).numel() // self.steps, hidden, batch_first=True)

    def forward(self, x):
        outputs, _ = super().forward(x.reshape(len(x), self.steps, -1))
        return outputs[:, -1] if self.last else outputs


class Embedding(nn.Module):
    def __init__(self, rows, dim, positions=0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, dim))
        if positions:
            self.positions = nn.Parameter(torch.randn(positions, dim))

    def forward(self, x):
        y = functional.embedding(x.flatten(1).long(), self.weight)
        return y + self.positions[:y.shape[1]] if hasattr(self, "positions") else y


class Attention(nn.MultiheadAttention):
    """Through `steps` steps, or as many as the sample has rows."""

    def __init__(self, shape, heads, causal=False, steps=None):
        self.steps = steps or shape[-2]
        self.causal = causal
        super().__init__(torch.Size(shape).numel() // self.steps, heads, batch_first=True)
        nn.init.normal_(self.in_proj_bias, 0, 0.1)
        nn.init.normal_(self.out_proj.bias, 0, 0.1)

    def forward(self, x):
        x = x.reshape(len(x), self.steps, -1).transpose(0, 1)
        later = torch.ones(self.steps, self.steps, dtype=torch.bool).triu(1) if self.causal else None
        # Not the module's own function: in evaluation it uses kernels that round differently.
        return functional.multi_head_attention_forward(
            x, x, x, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, None, None, False, 0.0,
            self.out_proj.weight, self.out_proj.bias, training=False, need_weights=False, attn_mask=later,
        )[0].transpose(0, 1)


class GlobalAvgPool2d(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def make_batch_norm(channels, is_image, scale=True, **options):
    made = (nn.BatchNorm2d if is_image else nn.BatchNorm1d)(channels, **options)
    made.running_mean.normal_(0, 0.1)
    made.running_var.uniform_(0.5, 1.5)
    nn.init.normal_(made.bias, 0, 0.1)
    if scale:
        nn.init.uniform_(made.weight, 0.5, 1.5)
    else:
        made.weight = None
    return made


def make_layer_norm(width, **options):
    made = nn.LayerNorm(width, **options)
    nn.init.uniform_(made.weight, 0.5, 1.5)
    nn.init.normal_(made.bias, 0, 0.1)
    return made


def make_layer(spec, shape):
    options = {name: value for name, value in spec.items() if name != "kind"}
    make = {
        "linear": lambda out, **more: nn.Linear(shape[-1], out, **more),
        "relu": nn.ReLU,
        "gelu": nn.GELU,
        "conv2d": lambda out_channels, kernel, **more: nn.Conv2d(shape[0], out_channels, kernel, **more),
        "max_pool2d": lambda kernel, **more: nn.MaxPool2d(kernel, **more),
        "avg_pool2d": lambda kernel, **more: nn.AvgPool2d(kernel, **more),
        "global_avg_pool2d": GlobalAvgPool2d,
        "flatten": nn.Flatten,
        "batch_norm": lambda **more: make_batch_norm(shape[0], len(shape) == 3, **more),
        "layer_norm": lambda **more: make_layer_norm(shape[-1], **more),
        "low_rank_cross": lambda **more: LowRankCross(shape[0], **more),
        "lstm": lambda **more: Lstm(shape, **more),
        "embedding": Embedding,
        "multi_head_attention": lambda **more: Attention(shape, **more),
        "residual": lambda layers: Residual(*make_layers(layers, shape)),
    }[spec["kind"]]
    return make(**options)


def make_layers(specs, shape):
    made = []
    for spec in specs:
        made.append(make_layer(spec, shape))
        with torch.no_grad():
            shape = list(copy.deepcopy(made[-1])(torch.zeros(2, *shape)).shape[1:])
    return made


def tensors_of(network, prefix, dtype):
    return {f"{prefix}.layer.{name}": tensor.detach().to(dtype).clone()
            for name, tensor in network.state_dict().items() if not name.endswith("num_batches_tracked")}


# -- a run ------------------------------------------------------------------------------------------------------------


def make_optimizer(parameters, kind, **options):
    return {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam}[kind](
        parameters, **options)


def make_targets(config, count):
    if config["loss"] == "cross_entropy":
        return torch.randint(config["outputs"], (count,))
    if config["loss"] == "bce_logits":
        return torch.randint(2, (count, config["outputs"])).float()
    return torch.randn(count, config["outputs"])


def loss_of(config, output, target):
    if config["loss"] == "cross_entropy":
        return functional.cross_entropy(output, target)
    target = target.to(output.dtype)
    if config["loss"] == "mse":
        return functional.mse_loss(output, target)
    return functional.binary_cross_entropy_with_logits(output, target)


def train(config, network, inputs, targets):
    """Trains `network` in its own precision; returns each rank's losses [steps]."""
    dtype = next(network.parameters()).dtype
    optimizer = make_optimizer(network.parameters(), **config["dense_optimizer"])
    losses = torch.zeros(config["trainers"], config["steps"], dtype=torch.float64)
    for step in range(config["steps"]):
        samples = slice(step * config["batch"], (step + 1) * config["batch"])
        optimizer.zero_grad()
        # Running statistics are rank 0's: rank 0 runs last, and the other ranks start from the values of the last step.
        kept = [tensor.clone() for tensor in network.buffers()]
        for rank in reversed(range(config["trainers"])):
            for tensor, value in zip(network.buffers(), kept):
                tensor.copy_(value)
            parts = config.get("micro_batches", 1)
            for some, wanted in zip(inputs[rank][samples].tensor_split(parts),
                                    targets[rank][samples].tensor_split(parts)):
                share = len(some) / config["batch"]
                loss = share * loss_of(config, network(some.to(dtype)), wanted)
                losses[rank, step] += loss.item()
                (loss / config["trainers"]).backward()
        optimizer.step()
    return losses


def largest_error(found, exact):
    return max(((found[name] - value).abs() / value.abs().clamp(min=1)).max().item() for name, value in exact.items())


def rows_of_text(script, count, width):
    """Returns the samples [count, width] and classes [count] that an example's script writes."""
    text = subprocess.run(["sh", EXAMPLES / script, str(count)], check=True, capture_output=True, text=True).stdout
    rows = torch.tensor([[float(word) for word in line.split(",")] for line in text.splitlines()[1:]])
    return rows[:, :width], rows[:, width].long()


def make_run(config, text):
    """Returns the run's tensors by name, and the error of the same run in float32. `text`: a script that writes the
    samples; None: they are random."""
    torch.manual_seed(config["seed"])
    network = nn.Sequential(*make_layers(config["layers"], config["input"]))
    count = config["steps"] * config["batch"]
    inputs = [torch.randn(count, *config["input"]) for _ in range(config["trainers"])]
    targets = [make_targets(config, count) for _ in range(config["trainers"])]
    eval_input = torch.randn(EVAL_SAMPLES, *config["input"])
    if text is not None:
        samples, classes = rows_of_text(text, config["trainers"] * count + EVAL_SAMPLES, *config["input"])
        *inputs, eval_input = samples.split(count)
        targets = list(classes.split(count))[:-1]
    tensors = tensors_of(network, "init", torch.float32)

    found = {}
    for dtype in (torch.float32, torch.float64):
        trained = copy.deepcopy(network).to(dtype)
        losses = train(config, trained, inputs, targets)
        found[dtype] = tensors_of(trained, "final", torch.float64)
        found[dtype].update({f"trainer.{rank}.loss": of_rank for rank, of_rank in enumerate(losses)})
        trained.eval()
        with torch.no_grad():
            found[dtype]["eval.output"] = trained(eval_input.to(dtype)).double()
    exact = found[torch.float64]
    tensors.update(exact)
    for rank in range(config["trainers"]):
        tensors[f"trainer.{rank}.input"] = inputs[rank]
        tensors[f"trainer.{rank}.target"] = targets[rank]
    tensors["eval.input"] = eval_input
    return tensors, largest_error(found[torch.float32], exact)


def write_safetensors(path, metadata, tensors):
    names = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        content = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.set_num_threads(1)
    for name, config in RUNS.items():
        tensors, error = make_run(config, TEXTS.get(name))
        path = folder / f"{name}.safetensors"
        write_safetensors(path, {"config": json.dumps(config), "made_with": f"PyTorch {torch.__version__}, float64"},
                          tensors)
        print(f"{name}: {path.stat().st_size} bytes, in float32 {error:.1e} from it")
        if error > FLOAT32_ERROR_MAX:
            sys.exit(f"{name}: in float32 {error:.1e}: must be at most {FLOAT32_ERROR_MAX}; change the run")


if __name__ == "__main__":
    main()
