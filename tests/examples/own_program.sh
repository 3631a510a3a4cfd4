#!/usr/bin/env bash
# own_program.sh PROGRAM TROUPE: a program with a layer and a loss of its own is all of `troupe`: the same weights in one process, in
# several, and after it was killed and resumed. TROUPE, which lacks them, names one and refuses.

set -euo pipefail
program=$1 troupe=$2
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

layers='[{"kind": "linear", "out": 16}, {"kind": "swish", "beta": 1.5}, {"kind": "linear", "out": 1}]'
job=(--data synthetic --steps 400 --layers "$layers" --loss focal --quiet --json)
digest() { sed -n 's/.*"weights_digest":"\([0-9a-f]*\)".*/\1/p' <<<"$1"; }

whole=$(digest "$("$program" train "${job[@]}")")
[[ -n $whole ]] || { echo "a run reports no digest" && exit 1; }
several=$(digest "$("$program" train "${job[@]}" --processes)")
[[ $several == "$whole" ]] || { echo "in several processes $several, in one $whole" && exit 1; }

"$program" train "${job[@]}" --save "$folder/run" --checkpoint-every 20 >/dev/null &
until compgen -G "$folder/run/step-*.json" >/dev/null || ! kill -0 $! 2>/dev/null; do :; done
kill -KILL $! 2>/dev/null || true
wait $! 2>/dev/null || true
resumed=$(digest "$("$program" train --resume "$folder/run" --quiet --json)")
[[ $resumed == "$whole" ]] || { echo "resumed $resumed, whole $whole" && exit 1; }

refuse() {
  local refused
  if refused=$("$troupe" train --quiet "$@" 2>&1); then
    echo "troupe has trained with $*" && exit 1
  fi
  grep -qE "swish|focal" <<<"$refused" || { echo "$refused names neither" && exit 1; }
}
refuse --data synthetic --layers "$layers"
refuse --data synthetic --loss focal
refuse --resume "$folder/run"
