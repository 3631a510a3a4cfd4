"""What data_parallel.sh found, for people.

data_parallel.py table FOLDER [FILE.svg]: FOLDER has a file WAY.PLACE.TRAINERS, with a line of JSON for each round.
    Prints the medians, and draws them.
data_parallel.py same FOLDER: FOLDER has a file weights.WAY.TRAINERS. Exit code 1 unless those of all ways are the same.
data_parallel.py trace PROGRAM FOLDER WAY STEPS: what the program `troupe` says of the recording in FOLDER.
"""

import array
import json
import math
import statistics
import subprocess
import sys

import plotting

WAYS = ["gather", "allreduce", "server"]
PLACES = {"process": "one process", "processes": "processes"}
TRAINERS = [1, 2, 4, 8]
TOLERANCE = 1e-4


def table(folder, picture=None):
    """A row for each place and way: samples/s, and how many times as many as of one trainer that exchanges nothing."""
    found = {}
    for place in PLACES:
        for way in WAYS:
            for trainers in TRAINERS:
                with open(f"{folder}/{way}.{place}.{trainers}", encoding="utf-8") as file:
                    found[place, way, trainers] = [json.loads(line) for line in file]
    rate = {key: statistics.median(one["samples_per_s"] for one in rounds) for key, rounds in found.items()}
    print("| | | 1 trainer | | " + " | ".join(f"{n} trainers |" for n in TRAINERS[1:]) + " |\n|" +
          "---|" * (2 + 2 * len(TRAINERS)))
    for place, title in PLACES.items():
        alone = rate[place, "allreduce", 1]
        for way in WAYS:
            rates = [rate[place, way, n] for n in TRAINERS]
            print(f"| {title} | `{way}` | " + " | ".join(f"{one:,.0f} | {one / alone:.2f}" for one in rates) + " |")
    print(f"\nbytes that rank 0 sends and receives in a step with {TRAINERS[-1]} trainers (allreduce: see --trace):")
    for way in ("gather", "server"):
        last = found["processes", way, TRAINERS[-1]][-1]
        print(f"  {way}: {last['sent'][0]:,} and {last['received'][0]:,}")
    if picture:
        plotting.lines(picture, "samples/s by trainers", TRAINERS,
                       [(f"{way}, {title}", [rate[place, way, n] for n in TRAINERS], place == "processes")
                        for place, title in PLACES.items() for way in WAYS])


def same(folder):
    """Whether all ways have the same weights: by the length of the difference, beside that of the weights."""
    status = 0
    for trainers in TRAINERS:
        weights = {}
        for way in WAYS:
            weights[way] = array.array("f")
            with open(f"{folder}/weights.{way}.{trainers}", "rb") as file:
                weights[way].frombytes(file.read())
        of = weights["allreduce"]
        for way in WAYS:
            apart = math.dist(weights[way], of) / math.hypot(*of)
            if not apart <= TOLERANCE:
                print(f"{way} with {trainers} trainers: its weights differ by {apart:.1e} from those of allreduce, "
                      f"where rounding is at most {TOLERANCE:g}: one of them computes something else", file=sys.stderr)
                status = 1
    return status


def moved_between(summary):
    """Bytes that leave and enter the processes of ranks and servers, by the name of the rank or server."""
    process_of = {one["actor"]: one["process"] for one in summary["actors"]}
    names = {process: actor.replace("trainer", "rank") for actor, process in process_of.items()
             if actor.startswith(("trainer", "server"))}
    moved = {name: [0, 0] for name in names.values()}
    for edge in summary["edges"]:
        ends = [names.get(process_of.get(edge[end])) for end in ("from", "to")]
        if None not in ends and ends[0] != ends[1]:
            moved[ends[0]][0] += edge["bytes"]
            moved[ends[1]][1] += edge["bytes"]
    return moved


def trace(program, folder, way, steps):
    """A step of median length, the shares of all steps' critical paths, and the bytes that each process moves."""
    def ask(analysis):
        out = subprocess.run([program, "trace", analysis, folder, "--json"], check=True, capture_output=True, text=True)
        return json.loads(out.stdout.splitlines()[-1])

    path = ask("critical-path")
    all_steps = path["statistics"]
    median = min(path["steps"], key=lambda step: abs(step["time_ns"] - all_steps["p50_ns"]))
    shares = {}
    for part in all_steps["parts"]:
        shares[part["what"]] = shares.get(part["what"], 0) + part["sum_ns"] / all_steps["sum_ns"]
    largest = sorted(shares.items(), key=lambda share: -share[1])[:6]
    print(f"\n{way}, {median['text']}")
    print(f"  {all_steps['steps']} steps: " + ", ".join(f"{what} {share * 100:.1f} %" for what, share in largest))
    print("  KiB sent and received a step: " +
          "; ".join(f"{name} {out / steps / 1024:,.0f} and {into / steps / 1024:,.0f}"
                    for name, (out, into) in sorted(moved_between(ask("summary")).items()) if out + into > 0))


def main():
    what, *given = sys.argv[1:]
    if what == "same":
        return same(*given)
    if what == "trace":
        trace(*given[:3], int(given[3]))
    else:
        table(*given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
