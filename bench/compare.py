"""What bench/compare.sh measured: the tables, the verdicts, and the exit code. compare.py FOLDER ROUNDS"""

import json
import statistics
import sys

STEPS_RATIO_MIN = 300
SAMPLES_RATIO_MIN = 3.5
LIMIT_SHARE_MIN = 0.75
PROCESSES_RATIO_MIN = 10
PROCESSES_SHARE_MIN = 0.85
ROUND_TRIP_MAX = 2.5
BANDWIDTH_SHARE_MIN = 0.60
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


def show_processes(torch, tutorial, one_process, wide):
    return f"{torch:>12,.1f}{tutorial:>14,.0f}{tutorial / torch:>9,.0f}x{one_process:>16,.0f}{wide:>14,.0f}{wide / one_process:>9.0%}"


def show_lookup(torch_us, us, tcp_us, torch_rate, rate, tcp_rate):
    times = f"{torch_us:>12,.1f}{us:>14,.1f}{tcp_us:>12,.1f}{us / tcp_us:>9,.2f}x"
    return f"{times}{torch_rate:>14,.2f}{rate:>14,.2f}{tcp_rate:>12,.2f}{rate / tcp_rate:>9.0%}"


def lookups(numbers):
    """Medians for each size: round trip and bandwidth of PyTorch, Troupe and a bare socket."""
    found = []
    for size, line in enumerate(lines("lookup.1")):
        rounds = []
        for n in numbers:
            ours, theirs = lines(f"lookup.{n}")[size], lines(f"lookup_torch.{n}")[size]
            rounds.append([theirs["us"], ours["us"], ours["tcp_us"], theirs["gb_per_s"], ours["gb_per_s"],
                           ours["tcp_gb_per_s"]])
        print(f"a lookup of {line['rows']:,} rows of {line['dim']}")
        found.append(table("", f"{'PyTorch us':>12}{'Troupe us':>14}{'TCP us':>12}{'ratio':>10}{'PyTorch GB/s':>14}"
                               f"{'Troupe GB/s':>14}{'TCP GB/s':>12}{'share':>9}", rounds, show_lookup))
    return found


def main():
    numbers = range(1, int(sys.argv[2]) + 1)
    torch, troupe, sustained = table(
        "steps/s", f"{'PyTorch':>12}{'Troupe':>14}{'ratio':>10}{'sustained':>16}{'ratio':>10}",
        [[median_of(f"{what}.{n}", "steps_per_s") for what in ("torch", "troupe", "sustained")] for n in numbers],
        show_tutorial)
    steps_ratio = min(troupe, sustained) / torch  # both must reach it
    torch, troupe, limit, one_core, memory = table(
        "samples/s",
        f"{'PyTorch':>12}{'Troupe':>14}{'ratio':>10}{'limit':>16}{'share':>10}{'one core x n':>16}{'share':>10}{'MiB':>10}",
        [[median_of(f"{what}.{n}", "samples_per_s") for what in ("wide_torch", "wide", "limit")]
         + [median_of(f"limit.{n}", "one_core_samples_per_s"), median_of(f"wide.{n}", "peak_rss_mib")] for n in numbers],
        show_wide)
    torch_steps, processes, one_process, wide_processes = table(
        "processes", f"{'PyTorch':>12}{'Troupe':>14}{'ratio':>10}{'one process':>16}{'processes':>14}{'share':>9}",
        [[median_of(f"torch.{n}", "steps_per_s"), median_of(f"processes.{n}", "steps_per_s"),
          median_of(f"wide.{n}", "samples_per_s"), median_of(f"wide_processes.{n}", "samples_per_s")] for n in numbers],
        show_processes)
    small, _, large = lookups(numbers)
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
    processes_ratio, processes_share = processes / torch_steps, wide_processes / one_process
    round_trip, bandwidth = small[1] / small[2], large[4] / large[5]
    verdicts += [
        (f"tutorial in processes: {PROCESSES_RATIO_MIN}x PyTorch's steps/s", f"{processes_ratio:,.0f}x",
         processes_ratio >= PROCESSES_RATIO_MIN),
        (f"wide in processes: {PROCESSES_SHARE_MIN:.0%} of one process", f"{processes_share:.0%}",
         processes_share >= PROCESSES_SHARE_MIN),
        (f"lookup of 16 rows: at most {ROUND_TRIP_MAX}x a bare socket's time", f"{round_trip:.2f}x",
         round_trip <= ROUND_TRIP_MAX),
        (f"lookup of 26,624 rows: {BANDWIDTH_SHARE_MIN:.0%} of a bare socket's bandwidth", f"{bandwidth:.0%}",
         bandwidth >= BANDWIDTH_SHARE_MIN),
    ]
    for what, found, holds in verdicts:
        print(f"{what}: {'reached' if holds else 'missed'} ({found})")
    return 0 if all(holds for _, _, holds in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
