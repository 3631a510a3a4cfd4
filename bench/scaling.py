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
    width, height, left, bottom, top = 640, 320, 80, 40, 30
    most = max(rate for rate, _ in found.values()) * 1.1
    colours = ["#1b6ca8", "#c0392b", "#2e8b57"]

    def x(trainers):
        return left + TRAINERS.index(trainers) * (width - left - 120) / (len(TRAINERS) - 1)

    def y(rate):
        return height - bottom - rate / most * (height - bottom - top)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             f'font-size="12"><rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="{left}" y="18" font-weight="bold">samples/s by trainers, a process each</text>']
    for share in (0, 0.25, 0.5, 0.75, 1):
        rate = most / 1.1 * share
        parts.append(f'<line x1="{left}" x2="{width - 110}" y1="{y(rate):.1f}" y2="{y(rate):.1f}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{y(rate) + 4:.1f}" text-anchor="end">{rate / 1000:,.0f}k</text>')
    for trainers in TRAINERS:
        parts.append(f'<text x="{x(trainers):.1f}" y="{height - 18}" text-anchor="middle">{trainers}</text>')
    for servers, colour in zip(SERVERS, colours):
        points = " ".join(f"{x(t):.1f},{y(found[t, servers][0]):.1f}" for t in TRAINERS)
        last = y(found[TRAINERS[-1], servers][0])
        name = f"{servers} server{'s' if servers > 1 else ''}"
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{width - 100}" y="{last + 4 + 14 * SERVERS.index(servers) - 14:.1f}" '
                     f'fill="{colour}">{name}</text>')
    parts.append("</svg>\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts))


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
