#!/usr/bin/env python3
"""bench/survival.py [--seconds S] [--every S] [--program FILE]: a run whose processes are killed at random.

`troupe train --processes` with a checkpoint every 0.2 s; every few seconds SIGKILL of one of its processes, the one that
leads among them. Prints how long it took from each kill until the supervisor had training going on again, the share of steps that
were not done twice, and whether the weights are those of a run that lost nothing, and looks for what is left over.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:
            return [int(word) for word in listed.read().split()]
    except FileNotFoundError:
        return []


def name_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            words = line.read().decode().split("\0")
    except FileNotFoundError:
        return "?"
    return " ".join(words[words.index("--role") + 1 : words.index("--role") + 4 : 2]) if "--role" in words else "leader"


def descriptors_of(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120, help="how long processes are killed")
    parser.add_argument("--every", type=float, default=2, help="seconds between two kills")
    parser.add_argument("--steps", type=int, default=0, help="steps of the run (default: as many as take that long)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/troupe"))
    chosen = parser.parse_args()
    job = ["--data", "adult", "--servers", "2", "--trainers", "2", "--epochs", "1000000", "--eval-every", "0"]

    def train(more, **options):
        return [chosen.program, "train", "--json", "--processes"] + job + more

    steps = chosen.steps
    if steps == 0:  # half of the time may go into beginning again
        probe = subprocess.run(train(["--steps", "2000"]), check=True, capture_output=True, text=True)
        rate = json.loads(probe.stdout.splitlines()[-1])["steps_per_s"]
        steps = int(rate * chosen.seconds * 0.6)
    length = ["--steps", str(steps)]
    unbroken = json.loads(subprocess.run(train(length), check=True, capture_output=True, text=True).stdout.splitlines()[-1])

    draw = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory() as folder:
        saving = ["--save", os.path.join(folder, "saved"), "--restarts", "100", "--checkpoint-seconds", "0.2"]
        environment = dict(os.environ, TMPDIR=folder)
        running = subprocess.Popen(
            train(length + saving), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        ends = {}
        readers = [
            threading.Thread(target=lambda n=name, s=stream: ends.__setitem__(n, s.read()))
            for name, stream in (("out", running.stdout), ("err", running.stderr))
        ]
        for one in readers:
            one.start()
        victims = []
        stop_at = time.monotonic() + chosen.seconds
        most_descriptors = 0
        while running.poll() is None and time.monotonic() < stop_at:
            time.sleep(chosen.every)
            children = children_of(running.pid)
            most_descriptors = max(most_descriptors, descriptors_of(running.pid))
            if not children or running.poll() is not None:
                continue
            victim = draw.choice(children)
            victims.append(name_of(victim))
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                victims.pop()
        code = running.wait()
        for one in readers:
            one.join()
        left = sorted(name for name in os.listdir(folder) if name not in ("saved",) and not name.startswith("troupe-"))

    events = [json.loads(line) for line in ends["out"].splitlines()]
    attempts = [one for one in events if one["event"] == "attempt"]
    done = events[-1]
    if code != 0 or done["event"] != "done":
        print(ends["err"][-3000:])
        sys.exit(f"the run ended with exit code {code}")
    seconds = sorted(one["seconds"] for one in attempts)
    print(f"{len(victims)} kills: " + ", ".join(f"{victims.count(one)} of {one}" for one in sorted(set(victims))))
    print(f"{steps} steps, {done['attempts']} attempts, goodput {100 * done['goodput']:.1f} %")
    if seconds:
        print(f"from a loss to training again: median {statistics.median(seconds):.2f} s, longest {seconds[-1]:.2f} s")
    print(f"descriptors of the supervisor: {most_descriptors} at most; left over in its temporary folder: {left or 'nothing'}")
    same = done["weights_digest"] == unbroken["weights_digest"]
    print(f"weights: {done['weights_digest']}, {'those of the unbroken run' if same else 'NOT those of the unbroken run'}")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
