"""What slices of layers gain: the time of a step of apps/examples/tensor_parallel.cpp, beside the whole layers on one core.

tensor_parallel.py [--build FOLDER] [--rounds N] [--slices T] [--width N] [--hidden N] [--samples N] [--pairs N] [--steps N]

Runs of T slices, in one process and in one for each, alternate with runs of one slice on one thread. A step's time is that
of a long run less that of a short one, over the steps between. Prints medians over the rounds, and the median of the
rounds' ratios.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True  # keeps Python from writing caches to this folder


def seconds_of(program, words, steps):
    command = [program, "--quiet", "--trace", "off", *words, "--steps", str(steps)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return float(re.search(r"steps in ([0-9.]+) s", told).group(1))


def step_of(program, words, steps):
    return (seconds_of(program, words, steps + 1) - seconds_of(program, words, 1)) / steps


def main():
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", default=f"{root}/build/release")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--slices", type=int, default=2)
    options.add_argument("--steps", type=int, default=5)
    for name, default in (("width", 4096), ("hidden", 4096), ("samples", 512), ("pairs", 1)):
        options.add_argument(f"--{name}", type=int, default=default)
    given = options.parse_args()
    program = f"{given.build}/examples/example_tensor_parallel"
    sizes = [word for name in ("width", "hidden", "samples", "pairs") for word in (f"--{name}", str(getattr(given, name)))]
    slices = ["--slices", str(given.slices)]
    whole, ways = [], {"one process": slices, "a process each": [*slices, "--processes"]}
    split = {way: [] for way in ways}
    for _ in range(given.rounds):
        whole.append(step_of(program, [*sizes, "--slices", "1", "--threads", "1"], given.steps))
        for way, words in ways.items():
            split[way].append(step_of(program, [*sizes, *words], given.steps))
    load = ", ".join(f"{one:.2f}" for one in os.getloadavg())
    print(f"{len(os.sched_getaffinity(0))} cores, load averages {load}; {given.rounds} rounds, {' '.join(sizes)}\n")
    print(f"one slice on one thread: {statistics.median(whole):.3f} s a step")
    for way, times in split.items():
        ratios = [one / other for one, other in zip(whole, times)]
        print(f"{given.slices} slices, {way}: {statistics.median(times):.3f} s a step, {statistics.median(ratios):.2f} times "
              f"({min(ratios):.2f} to {max(ratios):.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
