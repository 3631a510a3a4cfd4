#!/usr/bin/env python3
"""What tracing costs whole runs: the wide job and the Adult job with tracing off, ring and full.

    bench/tracing.py [--rounds 9] [--program build/release/troupe]

The modes take turns within each round, since the pace of a machine changes; what is compared are the medians of the ratios
to `off` in the same round: of samples/s, and of processor time a sample, which other work on the machine disturbs less.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile

JOBS = {
    "wide": ["--data", "synthetic", "--rows", "1000000", "--dim", "64", "--bag", "26", "--batch-size", "1024",
             "--hidden", "512,256", "--steps", "150"],
    "adult": ["--data", "adult", "--epochs", "100"],
}
MODES = ["off", "ring", "full"]


def measure(program, job, mode):
    """Samples a second, and samples a second of processor time."""
    folder = tempfile.mkdtemp(prefix="troupe-bench-")
    command = [program, "train", "--json", *JOBS[job], "--trace", mode]
    if mode != "off":
        command += ["--trace-dir", folder]
    before = os.times()
    done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    after = os.times()
    shutil.rmtree(folder)
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return done["samples_per_s"], done["samples"] / processor


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--program", default="build/release/troupe")
    options = parser.parse_args()
    for job in JOBS:
        rates = {mode: [] for mode in MODES}
        for i in range(options.rounds):
            for mode in MODES if i % 2 == 0 else reversed(MODES):
                rates[mode].append(measure(options.program, job, mode))
        for mode in MODES:
            change = [100 * (statistics.median(a[i] / b[i] for a, b in zip(rates[mode], rates["off"])) - 1)
                      for i in range(2)]
            rate = statistics.median(a[0] for a in rates[mode])
            print(f"{job:6} {mode:5} {rate:>12,.0f} samples/s {change[0]:+6.1f} %   per processor second {change[1]:+6.1f} %",
                  flush=True)


if __name__ == "__main__":
    main()
