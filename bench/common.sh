# shellcheck shell=bash
# Shared by compare.sh, file_jobs.sh, mnist.sh and others: paths, options, runs and notes. To be sourced, not run.

set -euo pipefail

bench=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
# shellcheck disable=SC2034  # used by the scripts that source this
rounds=3 build=$(dirname "$bench")/build/release

export PYTHONDONTWRITEBYTECODE=1  # keep Python from writing caches to this folder

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# fail TEXT: prints the reason why measuring is impossible here, and ends the script.
fail() {
  printf '%s: error: %s\n' "$(basename "$0" .sh)" "$*" >&2
  exit 2
}

# whole OPTION VALUE: refuses a VALUE that is not a whole number of 1 or more.
whole() {
  [[ ${2-} =~ ^[1-9][0-9]{0,8}$ ]] || fail "$1 '${2-}': must be a whole number of 1 or more"
}

# help_of SCRIPT: prints the comment at the script's beginning.
help_of() { sed -n '2,/^$/s/^# \{0,1\}//p' "$1"; }

# need PROGRAM...: fails if one of them is missing.
need() {
  local program
  for program in "$@"; do
    [[ -x $program ]] || fail "there is no program $program: build it with tools/build.sh release, or name the folder" \
      "with --build"
  done
}

# machine: prints the date and the machine.
machine() {
  local cpu
  cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
  printf '%s\n' "$(date '+%Y-%m-%d %H:%M:%S %Z')" \
    "${cpu:-unknown processor}, $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
}

# measure FILE COMMAND...: appends the last line of its output to FILE; $scratch/out keeps all of it.
measure() {
  local file=$1
  shift
  "$@" >"$scratch/out" 2>"$scratch/err" || {
    cat "$scratch/err" >&2
    fail "this ended with an error: $*"
  }
  tail -n 1 "$scratch/out" >>"$scratch/$file"
}
