"""What bench/mnist.sh has measured: medians, ratios, and whether they reach what is asked for.

mnist.py FOLDER: files of JSON lines, one for each program.
"""

import json
import os
import statistics
import sys

SPEED_ASKED = 1.5
ACCURACY_ASKED = 0.985
ACCURACY_BELOW_PYTORCH = 0.002


def read(folder, name, key):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line)[key] for line in lines]


def main():
    folder = sys.argv[1]
    rates = {name: read(folder, name, "samples_per_s") for name in ("ours", "processes", "torch", "dlib")}
    names = {"ours": "Troupe, one process", "processes": "Troupe, a process each", "torch": "PyTorch DDP, 2 processes",
             "dlib": "dlib, 1 process"}
    medians = {name: statistics.median(found) for name, found in rates.items() if found}
    for name, median in medians.items():
        print(f"{names[name]:<26} {median:>9,.0f} samples/s  {median / medians['torch']:6.2f} x PyTorch"
              f"   ({', '.join(f'{rate:,.0f}' for rate in rates[name])})")
    met = medians["ours"] >= SPEED_ASKED * medians["torch"] and medians["ours"] > medians.get("dlib", 0)

    ours, peer = read(folder, "accuracy", "accuracy"), read(folder, "torch_accuracy", "accuracy")
    if ours:
        for name, found in (("Troupe", ours), ("PyTorch", peer)):
            print(f"accuracy, {name:<8} median {statistics.median(found):.4f}   "
                  f"({', '.join(f'{one:.4f}' for one in found)})")
        asked = min(ACCURACY_ASKED, statistics.median(peer) - ACCURACY_BELOW_PYTORCH)
        met = met and statistics.median(ours) >= asked
    print("what is asked for: reached" if met else "what is asked for: missed")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
