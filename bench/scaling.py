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

sys.dont_write_bytecode = True  # nothing stays in this folder

import plotting  # noqa: E402  (behind the line above)

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


def measure(troupe, place, trainers, servers, rounds):
    """Medians of samples/s and of CPU microseconds a sample."""
    rates, costs = [], []
    steps = SAMPLES // (BATCH * trainers)
    for _ in range(rounds):
        _, cpu_of_setup = run(troupe, place, trainers, servers, 1)
        done, cpu = run(troupe, place, trainers, servers, steps)
        rates.append(done["samples_per_s"])
        costs.append((cpu - cpu_of_setup) / done["samples"] * 1e6)
    return statistics.median(rates), statistics.median(costs)


def plot(found, path):
    """Lines of samples/s over trainers, one for each number of servers, as SVG."""
    plotting.lines(path, "samples/s by trainers, a process each", TRAINERS,
                   [(f"{servers} server{'s' if servers > 1 else ''}", [found[t, servers][0] for t in TRAINERS], False)
                    for servers in SERVERS])


def main():
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", default=f"{root}/build/release")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--plot")
    given = options.parse_args()
    found = {}
    print("| | servers | trainers | samples/s | CPU us a sample | of 1 trainer |\n|---|---|---|---|---|---|")
    for place, servers in PLACES:
        for trainers in TRAINERS:
            rate, cost = measure(f"{given.build}/troupe", place, trainers, servers, given.rounds)
            found[place, trainers, servers] = rate, cost
            growth = cost / found[place, 1, servers][1]
            print(f"| {place} | {servers} | {trainers} | {rate:,.0f} | {cost:.2f} | {growth:.2f} |", flush=True)
    if given.plot:
        plot({key[1:]: one for key, one in found.items() if key[0] == "processes"}, given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
