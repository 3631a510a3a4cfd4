#!/usr/bin/env bash
# own_program.sh PROGRAM TROUPE: a program with its own layer, loss, metrics, optimizer and data set works like
# `troupe`: the same weights and metric values in one process, in several, and after it was killed and resumed. TROUPE,
# which lacks these types, names one and refuses.

set -euo pipefail
program=$1 troupe=$2
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

layers='[{"kind": "linear", "out": 16}, {"kind": "swish", "beta": 1.5}, {"kind": "linear", "out": 1}]'
optimizers=(--dense-optimizer lion:weight_decay=0.01 --dense-lr 0.001 --sparse-optimizer lion:beta1=0.95 --sparse-lr 0.01)
job=(--data ratings:5000 --steps 400 --layers "$layers" --loss focal "${optimizers[@]}" --quiet --json)
metrics=(--metrics brier,f1)
# Extracts the metrics and the digest from the end of a run.
result() { sed -n 's/.*"event":"done".*\("metrics":{[^}]*}\).*\("weights_digest":"[0-9a-f]*"\).*/\1 \2/p' <<<"$1"; }

told=$("$program" train "${job[@]}" "${metrics[@]}" --metrics-csv "$folder/metrics.csv")
whole=$(result "$told")
[[ $whole =~ ^'"metrics":{"brier":'[0-9.e-]+',"f1":'[0-9.e-]+'} "weights_digest":"'[0-9a-f]+'"'$ ]] ||
  { echo "a run reports '$whole'" && exit 1; }
[[ $(head -1 "$folder/metrics.csv") == *,rmse,brier,f1 ]] || { head -1 "$folder/metrics.csv" && exit 1; }
# The file's last line has the values of the last event.
read -r brier f1 < <(sed -n '$s/.*,\([^,]*\),\([^,]*\)$/\1 \2/p' "$folder/metrics.csv")
[[ $whole == *"{\"brier\":$brier,\"f1\":$f1}"* ]] || { echo "in the file $brier and $f1, told $whole" && exit 1; }

several=$(result "$("$program" train "${job[@]}" "${metrics[@]}" --processes)")
[[ $several == "$whole" ]] || { echo "in several processes $several, in one $whole" && exit 1; }

"$program" train "${job[@]}" "${metrics[@]}" --save "$folder/run" --checkpoint-every 20 >/dev/null &
until compgen -G "$folder/run/step-*.json" >/dev/null || ! kill -0 $! 2>/dev/null; do :; done
kill -KILL $! 2>/dev/null || true
wait $! 2>/dev/null || true
resumed=$(result "$("$program" train --resume "$folder/run" --quiet --json)")
[[ $resumed == "$whole" ]] || { echo "resumed $resumed, whole $whole" && exit 1; }

# The help lists all of them.
for asked in "--help" "train --help"; do
  # shellcheck disable=SC2086  # a subcommand and an option
  help=$("$program" $asked)
  for name in swish focal brier f1 lion ratings; do
    grep -qE "^  $name +an? (layer|loss|metric|optimizer|data set)" <<<"$help" || { echo "$asked lacks $name: $help" && exit 1; }
  done
  grep -qE '^    beta1 +at least 0 and below 1 \(default: 0\.9\)$' <<<"$help" || { echo "$asked lacks beta1: $help" && exit 1; }
done

# Without metrics the weights are the same.
without=$("$program" train "${job[@]}")
[[ $without != *'"metrics"'* ]] || { echo "$without has metrics" && exit 1; }
[[ $whole == *"$(sed -n 's/.*\("weights_digest":"[0-9a-f]*"\).*/\1/p' <<<"$without")" ]] ||
  { echo "without metrics $without, with them $whole" && exit 1; }

# refuse NAMES ARGUMENT...: expects that troupe refuses the arguments with an error that has one of the names.
refuse() {
  local refused names=$1
  shift
  if refused=$("$troupe" train --quiet "$@" 2>&1); then
    echo "troupe has trained with $*" && exit 1
  fi
  grep -qE "$names" <<<"$refused" || { echo "$refused names none of $names" && exit 1; }
}
refuse swish --data synthetic --layers "$layers"
refuse focal --data synthetic --loss focal
refuse ratings --data ratings
refuse lion --data synthetic --dense-optimizer lion
refuse lion --data synthetic --sparse-optimizer lion:beta1=0.95
refuse "unknown metric brier" --data synthetic --metrics brier,f1
refuse "swish|focal|brier|ratings|lion" --resume "$folder/run"
