"""How cost grows with the number of trainers and servers: `troupe train` in one process, and with a process each.

scaling.py [--build FOLDER] [--rounds N] [--plot FILE.svg]

Every run handles the same samples in all, so CPU seconds a sample tell what more processes cost, and samples/s what this
machine's cores make of it. CPU seconds are those of all processes of a run over its whole life, less those of a run of
one step: set-up does not count. Prints medians, and what a sample costs beside one of a single trainer.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True  # keeps Python from writing caches to this folder

import plotting  # noqa: E402  (must follow the line above)

TRAINERS = [1, 2, 4, 8, 16]
SERVERS = [1, 2, 4]
PLACES = [("one process", 1)] + [("processes", servers) for servers in SERVERS]
BATCH = 256
SAMPLES = 16 * BATCH * 100
JOB = ["--data", "synthetic", "--tables", "4", "--rows", "100000", "--dim", "16", "--bag", "8", "--hidden", "64",
       "--batch-size", str(BATCH), "--eval-every", "0"]


def run(troupe, place, trainers, servers, steps):
    """The `done` event of a run, and the CPU seconds of its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [troupe, "train", *JOB, "--trainers", str(trainers), "--servers", str(servers), "--steps", str(steps),
               "--quiet", "--json", *(["--processes"] if place == "processes" else [])]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(out.splitlines()[-1]), cpu


def measure(troupe, rounds):
    """Medians of samples/s and of CPU microseconds a sample, by place, servers and trainers. Every round has all of
    them, so that a minute in which the machine is slow does not make one of them look slow."""
    cells = [(place, servers, trainers) for place, servers in PLACES for trainers in TRAINERS]
    rates, costs = {cell: [] for cell in cells}, {cell: [] for cell in cells}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for place, servers, trainers in cells:
            steps = SAMPLES // (BATCH * trainers)
            _, cpu_of_setup = run(troupe, place, trainers, servers, 1)
            done, cpu = run(troupe, place, trainers, servers, steps)
            rates[place, servers, trainers].append(done["samples_per_s"])
            costs[place, servers, trainers].append((cpu - cpu_of_setup) / done["samples"] * 1e6)
    return {cell: (statistics.median(rates[cell]), statistics.median(costs[cell])) for cell in cells}


def plot(found, path):
    """Lines of samples/s over trainers, one for each number of servers, as SVG."""
    plotting.lines(path, "samples/s by trainers, a process each", TRAINERS,
                   [(f"{servers} server{'s' if servers > 1 else ''}",
                     [found["processes", servers, trainers][0] for trainers in TRAINERS], False)
                    for servers in SERVERS])


def main():
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", default=f"{root}/build/release")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--plot")
    given = options.parse_args()
    found = measure(f"{given.build}/troupe", given.rounds)
    print("| | servers | trainers | samples/s | CPU us a sample | of 1 trainer |\n|---|---|---|---|---|---|")
    for (place, servers, trainers), (rate, cost) in found.items():
        growth = cost / found[place, servers, 1][1]
        print(f"| {place} | {servers} | {trainers} | {rate:,.0f} | {cost:.2f} | {growth:.2f} |")
    if given.plot:
        plot(found, given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
