#!/usr/bin/env bash
# manual.sh PREFIX: checks that the manual page has every subcommand and option of the program's help, and that groff
# accepts it.

set -euo pipefail
program=$1/bin/troupe page=$1/share/man/man1/troupe.1
mapfile -t subcommands < <("$program" --help | sed -n '/^Subcommands:/,/^$/ s/^  \([a-z]*\) .*/\1/p')
((${#subcommands[@]} >= 10)) || { echo "only ${#subcommands[@]} subcommands were found" && exit 1; }
for subcommand in "${subcommands[@]}"; do
  part=$(sed -n "/^\.SS troupe $subcommand /,/^\.S[SH] /p" "$page")
  [[ -n $part ]] || { echo "troupe $subcommand is not in the page" && exit 1; }
  options=0
  while read -r option; do
    grep -qF -- "${option//-/\\-}" <<<"$part" || { echo "$subcommand $option is not in the page" && exit 1; }
    ((++options))
  done < <("$program" "$subcommand" --help | grep -oE '^  (-[a-z],)?--[a-z-]+' | grep -oE -- '--[a-z-]+' | grep -v '^--help')
  ((options > 0)) || { echo "$subcommand has no options" && exit 1; }
done
! command -v groff >/dev/null || faults=$(groff -man -ww -z "$page" 2>&1)
[[ -z ${faults-} ]] || { echo "$faults" && exit 1; }
