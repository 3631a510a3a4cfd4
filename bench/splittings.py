"""What splitting a network over trainers costs and gains: time, memory and messages a step, measured and predicted.

splittings.py [--build FOLDER] [--rounds N]

The network is an MLP of eight equal layers, so that stages can be equal. Runs of the splittings alternate with runs of the
whole network by one trainer on one thread, with as many micro-batches; a time is the median over the rounds of its share
of that run's. All is in one process. Prints a table in Markdown.

Predicted: of R trainers with P stages each and M micro-batches, on enough cores, a step takes (M + P - 1) / (M x P) of the
whole network's, whose batch is as long for each trainer, but never less than the work over the cores; with T slices a T-th
of that. A stage s keeps the activations of min(P - s, M) micro-batches (1f1b) or M (gpipe), in floats of its layers' outputs
and their gradients; slices share every second layer's. A step has 2 M (P - 1) messages between the stages of a replica, for
each slice; each sum of a pair forward and backward, of a micro-batch, takes T (T - 1), and the input M (T - 1).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # keeps Python from writing caches to this folder

WIDTH, LAYERS, BATCH, MICRO_BATCHES, STEPS = 512, 8, 512, 8, 40
JOB = ["--data", "synthetic", "--tables", "1", "--rows", "1000", "--dim", str(WIDTH), "--bag", "1", "--classes", str(WIDTH),
       "--loss", "cross-entropy", "--hidden", ",".join([str(WIDTH)] * (LAYERS - 1)), "--batch-size", str(BATCH),
       "--micro-batches", str(MICRO_BATCHES), "--eval-every", "0", "--device", "cpu"]
SPLITTINGS = [(1, 1, 1, "1f1b"), (2, 1, 1, "1f1b"), (1, 2, 1, "1f1b"), (1, 2, 1, "gpipe"), (1, 4, 1, "1f1b"), (1, 4, 1, "gpipe"),
              (2, 2, 1, "1f1b"), (1, 1, 2, "1f1b"), (2, 1, 2, "1f1b"), (1, 2, 2, "1f1b"), (1, 1, 4, "1f1b")]


def splitting(trainers, stages, slices, schedule):
    words = ["--trainers", str(trainers), "--tensor-parallel", str(slices)]
    if stages == 1:
        return words
    layers = [str(2 * LAYERS // stages * stage) for stage in range(stages)]  # linear layers and ReLUs alternate
    return words + ["--pipeline", str(stages), "--schedule", schedule, "--stages", ",".join(layers)]


def run(troupe, words, steps, trace="off"):
    command = [troupe, "train", *JOB, *words, "--steps", str(steps), "--quiet", "--json", "--trace", trace]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def messages_of(troupe, words):
    """Messages of one step, and how many of them go between parts of a network."""
    counts = []
    for steps in (2, 12):
        with tempfile.TemporaryDirectory() as folder:
            run(troupe, [*words, "--trace-dir", folder], steps, "full")
            out = subprocess.run([troupe, "trace", "summary", folder, "--json"], check=True, capture_output=True, text=True)
            edges = json.loads(out.stdout)["edges"]
            between = sum(one["messages"] for one in edges if one["type"].startswith(("activation", "partial_sum")))
            counts.append((sum(one["messages"] for one in edges), between))
    return [(long - short) / 10 for short, long in zip(*counts)]


def predicted(trainers, stages, slices, schedule, cores):
    share = (MICRO_BATCHES + stages - 1) / (MICRO_BATCHES * stages * slices)
    time = max(share, trainers / cores if trainers * stages * slices > cores else share)
    alive = [MICRO_BATCHES if schedule == "gpipe" or stages == 1 else min(stages - s, MICRO_BATCHES)
             for s in range(stages)]
    numbers = sum(alive) * (BATCH // MICRO_BATCHES) * 2 * WIDTH * LAYERS // stages * (slices + 1) // 2
    of_sums = 2 * (LAYERS // 2) * slices * (slices - 1)
    messages = MICRO_BATCHES * (2 * (stages - 1) * slices + of_sums + slices - 1)
    return time, trainers * numbers * 4 / 2**20, trainers * messages


def main():
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", default=f"{root}/build/release")
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    troupe = f"{given.build}/troupe"
    cores = len(os.sched_getaffinity(0))
    print(f"{os.cpu_count()} cores; {LAYERS} layers of {WIDTH}, batch {BATCH}, {MICRO_BATCHES} micro-batches\n")
    print("| trainers | stages | slices | schedule | time of a step | predicted | bubble | predicted | peak MiB | activations, predicted "
          "MiB | messages a step | between parts | predicted |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for trainers, stages, slices, schedule in SPLITTINGS:
        words = splitting(trainers, stages, slices, schedule)
        shares, peaks, bubbles = [], [], []
        for _ in range(given.rounds):
            alone = run(troupe, ["--trainers", "1", "--threads", "1"], STEPS)
            split = run(troupe, words, STEPS)
            shares.append(split["seconds"] / alone["seconds"])
            peaks.append(split["peak_rss_mib"])
            bubbles.append(split.get("bubble") or 0)
        all_messages, between = messages_of(troupe, words)
        time, memory, messages = predicted(trainers, stages, slices, schedule, cores)
        bubble = (stages - 1) / (MICRO_BATCHES + stages - 1)
        print(f"| {trainers} | {stages} | {slices} | {schedule if stages > 1 else '—'} | {statistics.median(shares):.2f} | {time:.2f} | "
              f"{100 * statistics.median(bubbles):.0f} % | {100 * bubble:.0f} % | {statistics.median(peaks):.0f} | "
              f"{memory:.1f} | {all_messages:.0f} | {between:.0f} | {messages} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
