#!/usr/bin/env python3
"""What tracing costs whole runs: samples/s of the wide job and the Adult job with tracing off, ring and full.

    bench/tracing.py [--rounds 9] [--program build/release/troupe]

The modes take turns within each round, since the pace of a machine changes; what is compared are the medians of the ratios
to `off` in the same round.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile

JOBS = {
    "wide": ["--data", "synthetic", "--rows", "1000000", "--dim", "64", "--bag", "26", "--batch-size", "1024",
             "--hidden", "512,256", "--steps", "150"],
    "adult": ["--data", "adult", "--epochs", "12"],
}
MODES = ["off", "ring", "full"]


def samples_per_s(program, job, mode):
    folder = tempfile.mkdtemp(prefix="troupe-bench-")
    command = [program, "train", "--json", *JOBS[job], "--trace", mode]
    if mode != "off":
        command += ["--trace-dir", folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    shutil.rmtree(folder)
    return json.loads(done)["samples_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--program", default="build/release/troupe")
    options = parser.parse_args()
    for job in JOBS:
        rates = {mode: [] for mode in MODES}
        for i in range(options.rounds):
            for mode in MODES if i % 2 == 0 else reversed(MODES):
                rates[mode].append(samples_per_s(options.program, job, mode))
        for mode in MODES:
            ratio = statistics.median(a / b for a, b in zip(rates[mode], rates["off"]))
            print(f"{job:6} {mode:5} {statistics.median(rates[mode]):>12,.0f} samples/s  {100 * (ratio - 1):+.1f} %",
                  flush=True)


if __name__ == "__main__":
    main()
