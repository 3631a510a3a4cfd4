#!/usr/bin/env python3
"""bench/survival.py [--seconds S] [--every S] [--steps N] [--program FILE]: a run whose processes are killed at random.

`troupe train --processes` with a checkpoint every 0.2 s; every few seconds SIGKILL of one of its processes, the one that
leads among them. Prints how long it took from each kill until the supervisor had training going on again, the share of steps that
were not done twice, and whether the weights are those of a run that lost nothing, and looks for what is left over. A job that is
done before the time is over begins again. Memory, descriptors and disk are looked at all the time: from 10 minutes on their
medians in the first and the last quarter are compared. Exit code 0: the weights are right, nothing is left over or grows.
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
MIB = 1024 * 1024


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


def memory_of(pid):
    """The process's own resident memory in MiB, without files and shared memory."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as lines:
            return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:")), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def bytes_in(folder):
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


class Watch:
    """What a run takes of the machine, over time."""

    def __init__(self):
        self.samples = []

    def look(self, supervisor, folder):
        children = children_of(supervisor)
        self.samples.append({
            "memory of the supervisor, MiB": memory_of(supervisor),
            "memory of its processes, MiB": sum(memory_of(one) for one in children),
            "descriptors of the supervisor": descriptors_of(supervisor),
            "descriptors of its processes": sum(descriptors_of(one) for one in children),
            "disk, MiB": bytes_in(folder) / MIB,
        })

    def grows(self):
        """Prints the medians of the first and the last quarter. Returns whether one of them has grown."""
        if len(self.samples) < 8:
            return False
        quarter = len(self.samples) // 4
        grown = False
        for name in self.samples[0]:
            first, last = (
                statistics.median(one[name] for one in part) for part in (self.samples[:quarter], self.samples[-quarter:])
            )
            too_much = last > 1.2 * first + 2
            grown = grown or too_much
            print(f"{name}: {first:.1f} in the first quarter, {last:.1f} in the last{', GROWN' if too_much else ''}")
        return grown


def read(stream, into):
    into.append(stream.read())


def broken_run(command, chosen, draw, stop_at, watch):
    """Runs `command`, and kills its processes until `stop_at`. Returns its last event, its attempts, whom it has lost."""
    victims = []
    with tempfile.TemporaryDirectory() as folder:
        saving = ["--save", os.path.join(folder, "saved"), "--restarts", "100", "--checkpoint-seconds", "0.2"]
        running = subprocess.Popen(
            command + saving,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ, TMPDIR=folder),
        )
        out, err = [], []
        readers = [threading.Thread(target=read, args=one) for one in ((running.stdout, out), (running.stderr, err))]
        for one in readers:
            one.start()
        while running.poll() is None and time.monotonic() < stop_at:
            time.sleep(chosen.every)
            children = children_of(running.pid)
            if not children or running.poll() is not None:
                continue
            watch.look(running.pid, folder)
            victim = draw.choice(children)
            victims.append(name_of(victim))
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                victims.pop()
        code = running.wait()
        for one in readers:
            one.join()
        left = sorted(name for name in os.listdir(folder) if name != "saved" and not name.startswith("troupe-"))
    events = [json.loads(line) for line in out[0].splitlines()]
    if code != 0 or events[-1]["event"] != "done" or left:
        print(err[0][-3000:])
        sys.exit(f"the run ended with exit code {code}; left over in its temporary folder: {left or 'nothing'}")
    return events[-1], [one for one in events if one["event"] == "attempt"], victims


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120, help="how long processes are killed")
    parser.add_argument("--every", type=float, default=2, help="seconds between two kills")
    parser.add_argument("--steps", type=int, default=0, help="steps of the run (default: as many as take that long)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/troupe"))
    chosen = parser.parse_args()
    job = ["--data", "adult", "--servers", "2", "--trainers", "2", "--epochs", "1000000", "--eval-every", "0"]

    def train(more):
        return [chosen.program, "train", "--json", "--processes"] + job + more

    def unbroken(more):
        return json.loads(
            subprocess.run(train(more), check=True, capture_output=True, text=True).stdout.splitlines()[-1]
        )

    steps = chosen.steps
    if steps == 0:  # restarts may take half of the time
        steps = int(unbroken(["--steps", "2000"])["steps_per_s"] * chosen.seconds * 0.6)
    length = ["--steps", str(steps)]
    expected = unbroken(length)["weights_digest"]

    draw = random.Random(chosen.seed)
    watch = Watch()
    begin = time.monotonic()
    stop_at = begin + chosen.seconds
    seconds, victims, done_steps, all_steps, rounds = [], [], 0, 0, 0
    same = True
    while time.monotonic() < stop_at:
        done, attempts, lost = broken_run(train(length), chosen, draw, stop_at, watch)
        rounds += 1
        victims += lost
        seconds += [one["seconds"] for one in attempts]
        done_steps += steps
        all_steps += steps / done["goodput"]
        same = same and done["weights_digest"] == expected
    kinds = ", ".join(f"{victims.count(one)} of {one}" for one in sorted(set(victims)))
    print(f"{time.monotonic() - begin:.0f} s, {len(victims)} kills: {kinds}")
    print(f"{rounds} x {steps} steps, {len(seconds) + rounds} attempts, goodput {100 * done_steps / all_steps:.1f} %")
    if seconds:
        print(f"from a loss to training again: median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s")
    grows = watch.grows() and chosen.seconds >= 600
    print(f"weights: {expected}, {'in each' if same else 'NOT in each'} run that lost processes")
    sys.exit(0 if same and not grows else 1)


if __name__ == "__main__":
    main()
