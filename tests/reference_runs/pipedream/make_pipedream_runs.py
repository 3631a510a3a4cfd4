#!/usr/bin/env python3
"""Makes reference runs of pipelines whose steps overlap (PipeDream), with PyTorch in float64.

    make_pipedream_runs.py [FOLDER]    writes them all (default: this folder)

Stage s of P passes step n, from 1, with its weights as of optimizer step n - (P - s), forward and back, and applies the
gradient, the mean over the trainers, to its newest weights. Tables are in stage 0, and so as old. README.md describes the
files: networks given as layers, or tables and hidden layers. A run's stages are in its name: `features_0_3_5` has three,
which begin at layers 0, 3 and 5; of hidden layers, each linear layer and each ReLU counts.
"""

import copy
import json
import sys
from pathlib import Path

import torch
from torch import nn

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent.parent))
import make_layer_runs as runs  # noqa: E402

LAYERS = [runs.layer("linear", out=12), runs.layer("relu"), runs.layer("linear", out=9), runs.layer("layer_norm"),
          runs.layer("gelu"), runs.layer("linear", out=6), runs.layer("relu"), runs.layer("linear", out=3)]

RUNS = {
    "features_0_3": runs.run(51, 1, 20, 10, "cross_entropy", 3, [8], LAYERS, kind="sgd", lr=0.1, momentum=0.9),
    "features_0_3_5": runs.run(52, 2, 20, 9, "mse", 3, [8], LAYERS, kind="adam", lr=0.01),
    "features_0_2_4_6_7": runs.run(53, 3, 12, 6, "bce_logits", 3, [8], LAYERS, kind="sgd", lr=0.2),
}


def table(rows, dim, mode, **options):
    return {"rows": rows, "dim": dim, "mode": mode, **options}


def table_run(seed, trainers, loss, outputs, sparse_reduce, dense, sparse):
    # Tables so small that every step looks up rows which the overlapping steps change.
    return {"trainers": trainers, "steps": 24, "seed": seed, "batch": 6, "dense_features": 3, "hidden": [12, 8],
            "outputs": outputs, "loss": loss, "dense_optimizer": dense, "sparse_optimizer": sparse,
            "sparse_reduce": sparse_reduce,
            "tables": [table(12, 6, "sum"), table(9, 4, "mean", min_bag=0), table(15, 5, "max")]}


TABLE_RUNS = {
    "tables_0_2": table_run(54, 1, "cross_entropy", 4, "mean", {"kind": "adam", "lr": 0.01},
                            {"kind": "sgd", "lr": 0.5}),
    "tables_0_3": table_run(55, 2, "bce_logits", 2, "sum", {"kind": "sgd", "lr": 0.2, "momentum": 0.9},
                            {"kind": "adagrad", "lr": 0.3, "initial_accumulator_value": 0.001}),
    "tables_0_1_4": table_run(56, 1, "mse", 3, "mean", {"kind": "sgd", "lr": 0.1},
                              {"kind": "adagrad", "lr": 0.1, "initial_accumulator_value": 0.01}),
    "tables_0_2_4": table_run(57, 2, "cross_entropy", 3, "mean", {"kind": "adagrad", "lr": 0.05},
                              {"kind": "sgd", "lr": 0.3, "momentum": 0.8}),
}


# -- steps that overlap -----------------------------------------------------------------------------------------------


def train_stages(config, stages, optimizers, batch_of):
    """Trains `stages`, each with its list of `optimizers`, on the inputs and targets of `batch_of(rank, step)`. Returns
    each rank's losses [steps]."""
    versions = [[copy.deepcopy(stage.state_dict())] for stage in stages]
    losses = torch.zeros(config["trainers"], config["steps"], dtype=torch.float64)
    for step in range(1, config["steps"] + 1):
        stale = copy.deepcopy(stages)
        for number, stage in enumerate(stale):
            stage.load_state_dict(versions[number][max(0, step - (len(stages) - number))])
        for rank in range(config["trainers"]):
            inputs, targets = batch_of(rank, step - 1)
            loss = runs.loss_of(config, nn.Sequential(*stale)(inputs), targets)
            losses[rank, step - 1] = loss.item()
            (loss / config["trainers"]).backward()
        for number, (stage, passed) in enumerate(zip(stages, stale)):
            for newest, old in zip(stage.parameters(), passed.parameters()):
                newest.grad = old.grad
            for optimizer in optimizers[number]:
                optimizer.step()
            versions[number].append(copy.deepcopy(stage.state_dict()))
    return losses


def cut(layers, begins):
    return [layers[begin:end] for begin, end in zip(begins, begins[1:] + [len(layers)])]


def dense_optimizers(config, stage):
    parameters = list(stage.parameters())
    return [runs.make_optimizer(parameters, **config["dense_optimizer"])] if parameters else []


def train(begins, config, network, inputs, targets):
    """As make_layer_runs.train, by stages."""
    stages = cut(network, begins)
    dtype = next(network.parameters()).dtype

    def batch_of(rank, step):
        samples = slice(step * config["batch"], (step + 1) * config["batch"])
        return inputs[rank][samples].to(dtype), targets[rank][samples]

    return train_stages(config, stages, [dense_optimizers(config, stage) for stage in stages], batch_of)


# -- with tables ------------------------------------------------------------------------------------------------------


class Tables(nn.ModuleList):
    """The network's input: dense features, then the pooled rows of each table."""

    def forward(self, features):
        dense, bags = features
        return torch.cat([dense] + [pooled(*of_table) for pooled, of_table in zip(self, bags)], 1)


class SummedOverTrainers:
    """An optimizer that sees the sum over the trainers where the gradient is their mean."""

    def __init__(self, optimizer, trainers):
        self.optimizer = optimizer
        self.trainers = trainers

    def step(self):
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad *= self.trainers
        self.optimizer.step()


def make_bags(spec, count):
    """The indices of `count` bags, and where each bag begins."""
    lengths = torch.randint(spec.get("min_bag", 1), 5, (count,))
    return torch.randint(spec["rows"], (int(lengths.sum()),)), lengths.cumsum(0) - lengths


def make_features(config, count):
    return torch.randn(count, config["dense_features"]), [make_bags(spec, count) for spec in config["tables"]]


def train_with_tables(begins, config, tables, dense, batches):
    """As `train`, with `batches[rank][step]`."""
    dtype = next(dense.parameters()).dtype
    stages = cut(dense, begins)
    optimizers = [dense_optimizers(config, stage) for stage in stages]
    sparse = runs.make_optimizer(tables.parameters(), **config["sparse_optimizer"])
    optimizers[0].append(SummedOverTrainers(sparse, config["trainers"]) if config["sparse_reduce"] == "sum" else sparse)
    stages[0] = nn.Sequential(tables, *stages[0])

    def batch_of(rank, step):
        (values, bags), targets = batches[rank][step]
        return (values.to(dtype), bags), targets

    return train_stages(config, stages, optimizers, batch_of)


def weights_of(prefix, tables, dense, dtype):
    linear = [layer for layer in dense if isinstance(layer, nn.Linear)]
    return {f"{prefix}.{kind}.{name}": tensor.detach().to(dtype).clone()
            for kind, module in (("table", tables), ("dense", nn.ModuleList(linear)))
            for name, tensor in module.state_dict().items()}


def batch_tensors(config, rank, batches):
    prefix = f"trainer.{rank}"
    tensors = {f"{prefix}.bags": torch.tensor([len(values) for (values, _), _ in batches]),
               f"{prefix}.dense": torch.cat([values for (values, _), _ in batches]),
               f"{prefix}.target": torch.cat([targets for _, targets in batches])}
    for number in range(len(config["tables"])):
        of_table = [bags[number] for (_, bags), _ in batches]
        tensors[f"{prefix}.table.{number}.index_count"] = torch.tensor([len(indices) for indices, _ in of_table])
        tensors[f"{prefix}.table.{number}.indices"] = torch.cat([indices for indices, _ in of_table])
        tensors[f"{prefix}.table.{number}.offsets"] = torch.cat([offsets for _, offsets in of_table])
    return tensors


def make_batches(config):
    """Of each rank, a step's features and targets; their sizes differ."""
    sizes = torch.randint(config["batch"] - 2, config["batch"] + 3, (config["trainers"], config["steps"]))
    return [[(make_features(config, int(size)), runs.make_targets(config, int(size))) for size in of_rank]
            for of_rank in sizes]


def make_table_run(begins, config):
    """As make_layer_runs.make_run, with tables and hidden layers."""
    torch.manual_seed(config["seed"])
    tables = Tables(nn.EmbeddingBag(spec["rows"], spec["dim"], mode=spec["mode"]) for spec in config["tables"])
    width = config["dense_features"] + sum(spec["dim"] for spec in config["tables"])
    layers = []
    for out in config["hidden"]:
        layers += [nn.Linear(width, out), nn.ReLU()]
        width = out
    dense = nn.Sequential(*layers, nn.Linear(width, config["outputs"]))
    batches = make_batches(config)
    tensors = weights_of("init", tables, dense, torch.float32)

    found = {}
    for dtype in (torch.float32, torch.float64):
        trained = copy.deepcopy((tables, dense))
        for module in trained:
            module.to(dtype)
        losses = train_with_tables(begins, config, *trained, batches)
        found[dtype] = weights_of("final", *trained, torch.float64)
        found[dtype].update({f"trainer.{rank}.loss": of_rank for rank, of_rank in enumerate(losses)})
    exact = found[torch.float64]
    tensors.update(exact)
    for rank, of_rank in enumerate(batches):
        tensors.update(batch_tensors(config, rank, of_rank))
    return tensors, runs.largest_error(found[torch.float32], exact)


def make_layer_run(begins, config):
    runs.train = lambda *arguments: train(begins, *arguments)
    return runs.make_run(config)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.set_num_threads(1)
    for name, config in {**RUNS, **TABLE_RUNS}.items():
        begins = [int(begin) for begin in name.split("_")[1:]]
        tensors, error = (make_table_run if name in TABLE_RUNS else make_layer_run)(begins, config)
        path = folder / f"{name}.safetensors"
        runs.write_safetensors(
            path, {"config": json.dumps(config), "made_with": f"PyTorch {torch.__version__}, float64"}, tensors)
        print(f"{name}: {path.stat().st_size} bytes, in float32 {error:.1e} from it")
        if error > runs.FLOAT32_ERROR_MAX:
            sys.exit(f"{name}: in float32 {error:.1e}: must be at most {runs.FLOAT32_ERROR_MAX}; change the run")


if __name__ == "__main__":
    main()
