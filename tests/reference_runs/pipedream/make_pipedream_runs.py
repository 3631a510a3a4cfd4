#!/usr/bin/env python3
"""Makes reference runs of pipelines whose steps overlap (PipeDream), with PyTorch in float64.

    make_pipedream_runs.py [FOLDER]    writes them all (default: this folder)

Stage s of P passes step n, from 1, with its weights as of optimizer step n - (P - s), forward and back, and applies the
gradient, the mean over the trainers, to its newest weights. The files are those of make_layer_runs.py; a run's stages are
in its name: `features_0_3_5` has three, which begin at layers 0, 3 and 5.
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


def train(begins, config, network, inputs, targets):
    """As make_layer_runs.train, by stages."""
    ends = begins[1:] + [len(network)]
    stages = [network[begin:end] for begin, end in zip(begins, ends)]
    dtype = next(network.parameters()).dtype
    optimizers = [runs.make_optimizer(stage.parameters(), **config["dense_optimizer"])
                  if list(stage.parameters()) else None for stage in stages]
    versions = [[copy.deepcopy(stage.state_dict())] for stage in stages]
    losses = torch.zeros(config["trainers"], config["steps"], dtype=torch.float64)
    for step in range(1, config["steps"] + 1):
        stale = copy.deepcopy(stages)
        for number, stage in enumerate(stale):
            stage.load_state_dict(versions[number][max(0, step - (len(stages) - number))])
        samples = slice((step - 1) * config["batch"], step * config["batch"])
        for rank in range(config["trainers"]):
            loss = runs.loss_of(config, nn.Sequential(*stale)(inputs[rank][samples].to(dtype)), targets[rank][samples])
            losses[rank, step - 1] = loss.item()
            (loss / config["trainers"]).backward()
        for number, (stage, passed) in enumerate(zip(stages, stale)):
            for newest, old in zip(stage.parameters(), passed.parameters()):
                newest.grad = old.grad
            if optimizers[number]:
                optimizers[number].step()
            versions[number].append(copy.deepcopy(stage.state_dict()))
    return losses


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    torch.set_num_threads(1)
    for name, config in RUNS.items():
        begins = [int(begin) for begin in name.split("_")[1:]]
        runs.train = lambda *arguments, begins=begins: train(begins, *arguments)
        tensors, error = runs.make_run(config)
        path = folder / f"{name}.safetensors"
        runs.write_safetensors(
            path, {"config": json.dumps(config), "made_with": f"PyTorch {torch.__version__}, float64"}, tensors)
        print(f"{name}: {path.stat().st_size} bytes, in float32 {error:.1e} from it")
        if error > runs.FLOAT32_ERROR_MAX:
            sys.exit(f"{name}: in float32 {error:.1e}: must be at most {runs.FLOAT32_ERROR_MAX}; change the run")


if __name__ == "__main__":
    main()
