"""What bench/compare.sh measured: the tables, the verdicts, and the exit code. compare.py FOLDER ROUNDS"""

import json
import statistics
import sys

STEPS_RATIO_MIN = 300
SAMPLES_RATIO_MIN = 3.5
LIMIT_SHARE_MIN = 0.70
TABLE_MIB = 1_000_000 * 64 * 4 / 2**20
MEMORY_MAX_MIB = TABLE_MIB * 1.15 + 150


def lines(name):
    with open(f"{sys.argv[1]}/{name}") as file:
        return [json.loads(line) for line in file]


def median_of(name, field):
    return statistics.median(line[field] for line in lines(name))


def table(title, head, rounds, show):
    """Prints the rounds, a tuple of figures each, and returns their medians."""
    print(f"{title:<10}{head}")
    for number, figures in enumerate(rounds, 1):
        print(f"round {number:<4}{show(*figures)}")
    medians = [statistics.median(column) for column in zip(*rounds)]
    print(f"{'median':<10}{show(*medians)}\n")
    return medians


def show_tutorial(torch, troupe, sustained):
    return f"{torch:>12,.1f}{troupe:>14,.0f}{troupe / torch:>9,.0f}x{sustained:>16,.0f}{sustained / torch:>9,.0f}x"


def show_wide(torch, troupe, limit, one_core, memory):
    against_torch = f"{torch:>12,.0f}{troupe:>14,.0f}{troupe / torch:>9,.1f}x"
    against_limits = f"{limit:>16,.0f}{troupe / limit:>10.0%}{one_core:>16,.0f}{troupe / one_core:>10.0%}"
    return f"{against_torch}{against_limits}{memory:>10,.0f}"


def main():
    numbers = range(1, int(sys.argv[2]) + 1)
    torch, troupe, sustained = table(
        "steps/s", f"{'PyTorch':>12}{'Troupe':>14}{'ratio':>10}{'sustained':>16}{'ratio':>10}",
        [[median_of(f"{what}.{n}", "steps_per_s") for what in ("torch", "troupe", "sustained")] for n in numbers],
        show_tutorial)
    steps_ratio = min(troupe, sustained) / torch  # both ways of looking at it have to hold
    torch, troupe, limit, one_core, memory = table(
        "samples/s",
        f"{'PyTorch':>12}{'Troupe':>14}{'ratio':>10}{'limit':>16}{'share':>10}{'one core x n':>16}{'share':>10}{'MiB':>10}",
        [[median_of(f"{what}.{n}", "samples_per_s") for what in ("wide_torch", "wide", "limit")]
         + [median_of(f"limit.{n}", "one_core_samples_per_s"), median_of(f"wide.{n}", "peak_rss_mib")] for n in numbers],
        show_wide)
    adult = lines("adult")[0]
    seconds = f"{adult['seconds']:.2f} s training, {adult['setup_seconds']:.2f} s set-up"
    print(f"Adult job: AUC {adult['auc']:.4f}, {seconds}\n")

    ratio, share = troupe / torch, troupe / limit
    verdicts = [
        (f"tutorial: {STEPS_RATIO_MIN}x PyTorch's steps/s", f"{steps_ratio:,.0f}x", steps_ratio >= STEPS_RATIO_MIN),
        (f"wide: {SAMPLES_RATIO_MIN}x PyTorch's samples/s", f"{ratio:,.1f}x", ratio >= SAMPLES_RATIO_MIN),
        (f"wide: {LIMIT_SHARE_MIN:.0%} of the limit", f"{share:.0%}", share >= LIMIT_SHARE_MIN),
        (f"wide: at most {MEMORY_MAX_MIB:.0f} MiB", f"{memory:.0f} MiB", memory <= MEMORY_MAX_MIB),
    ]
    for what, found, holds in verdicts:
        print(f"{what}: {'reached' if holds else 'missed'} ({found})")
    return 0 if all(holds for _, _, holds in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
