#!/usr/bin/env bash
# bench/compare.sh [--rounds N] [--steps N] [--troupe PROGRAM]: Troupe and PyTorch on the tutorial job (2 trainers, 1
# parameter server), in turn, in one sitting. PyTorch takes a process for each role; Troupe takes one for all.
#
# Prints each round's steps/s, the medians and their ratio; exit code 0 if Troupe is at least 300 times as fast, 1 if
# not, 2 if it cannot be measured here. Then Troupe's Adult job, for which PyTorch has no run here.

set -euo pipefail
bench=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
root=$(dirname "$bench")
readonly python=/usr/bin/python3 ratio_min=300
# A Troupe run of as many steps as PyTorch's takes some milliseconds only: several of them, and a long one beside them.
readonly runs_per_round=5 sustained_factor=200

fail() {
  printf 'compare: error: %s\n' "$*" >&2
  exit 2
}

# whole OPTION VALUE: refuses what is not a number of 1 or more.
whole() {
  [[ ${2-} =~ ^[1-9][0-9]{0,8}$ ]] || fail "$1 '${2-}': must be a whole number of 1 or more"
}

rounds=3 steps=1000 troupe=
while (($# > 0)); do
  case $1 in
    --rounds) whole "$1" "${2-}" && rounds=$2 && shift 2 ;;
    --steps) whole "$1" "${2-}" && steps=$2 && shift 2 ;;
    --troupe) troupe=${2-} && shift $(($# > 1 ? 2 : 1)) ;;
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
    *) fail "unknown option $1; there are --rounds, --steps and --troupe" ;;
  esac
done

troupe=${troupe:-$root/build/release/troupe}
[[ -x $troupe ]] || fail "there is no program $troupe: build it with tools/build.sh release, or name it with --troupe"
"$python" -c 'import torch' 2>/dev/null ||
  fail "PyTorch is missing: apt-get install --no-install-recommends python3-torch python3-numpy"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# measure FILE COMMAND...: appends the last line of its output to FILE.
measure() {
  local file=$1
  shift
  "$@" >"$scratch/out" 2>"$scratch/err" || {
    cat "$scratch/err" >&2
    fail "this ended with an error: $*"
  }
  tail -n 1 "$scratch/out" >>"$scratch/$file"
}

cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
printf '%s\n' "$(date '+%Y-%m-%d %H:%M:%S %Z')" "${cpu:-unknown processor}, $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)" \
  "$("$troupe" --version), PyTorch $("$python" -c 'import torch; print(torch.__version__)')" \
  "tutorial job, 2 trainers, 1 server, $steps steps; sustained: Troupe with $((steps * sustained_factor))" ''

for ((round = 1; round <= rounds; ++round)); do
  measure "torch.$round" "$python" "$bench/torch_hybrid.py" --trainers 2 --steps "$steps"
  for ((run = 0; run < runs_per_round; ++run)); do
    measure "troupe.$round" "$troupe" train --data tutorial --trainers 2 --steps "$steps" --json
  done
  measure "sustained.$round" "$troupe" train --data tutorial --trainers 2 --steps $((steps * sustained_factor)) --json
done
measure adult "$troupe" train --data adult --json

"$python" - "$scratch" "$rounds" "$ratio_min" <<'EOF'
import json
import statistics
import sys

scratch, rounds, ratio_min = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])


def lines(name):
    with open(f"{scratch}/{name}") as file:
        return [json.loads(line) for line in file]


def steps_per_s(name):
    return statistics.median(line["steps_per_s"] for line in lines(name))


def row(name, values):
    torch, troupe, sustained = values
    print(f"{name:<7}{torch:>12,.1f}{troupe:>14,.0f}{troupe / torch:>9,.0f}x{sustained:>16,.0f}{sustained / torch:>9,.0f}x")


print(f"{'steps/s':<7}{'PyTorch':>12}{'Troupe':>14}{'ratio':>10}{'sustained':>16}{'ratio':>10}")
found = [[steps_per_s(f"{what}.{n}") for what in ("torch", "troupe", "sustained")] for n in range(1, rounds + 1)]
for number, values in enumerate(found, 1):
    row(number, values)
medians = [statistics.median(column) for column in zip(*found)]
row("median", medians)

adult = lines("adult")[0]
print(f"\nAdult job: AUC {adult['auc']:.4f}, {adult['seconds']:.2f} s training, {adult['setup_seconds']:.2f} s set-up")

# Both ways of looking at it have to hold.
ratio = min(medians[1:]) / medians[0]
verdict = "reached" if ratio >= ratio_min else "missed"
print(f"{ratio_min:.0f}x PyTorch's steps/s: {verdict} ({ratio:,.0f}x)")
sys.exit(0 if ratio >= ratio_min else 1)
EOF
