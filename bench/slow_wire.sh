#!/usr/bin/env bash
# bench/slow_wire.sh [--rate RATE] [--rounds N] [--build FOLDER] [-- OPTION...]: a trainer on one host and a server on
# another, connected at RATE (in tc's units; 1gbit) in each direction. The hosts are network namespaces of this machine,
# so it needs root, ip and tc. The OPTIONs of `troupe train` are added to the job's and must not repeat any of them: 8
# tables of 100,000 x 16, bags of 26, batches of 512, a hidden layer of 64, 300 steps.
#
# Prints samples/s of each round, their median, and the bytes per sample that each host sends, as counted on the wire.
# Exit code 0; 2 if measuring is impossible here.

# shellcheck source=bench/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

rate=1gbit options=()
while (($# > 0)); do
  case $1 in
    --rate) rate=${2-} && shift $(($# > 1 ? 2 : 1)) ;;
    --rounds) whole "$1" "${2-}" && rounds=$2 && shift 2 ;;
    --build) build=${2-} && shift $(($# > 1 ? 2 : 1)) ;;
    --) shift && options=("$@") && break ;;
    -h | --help) help_of "${BASH_SOURCE[0]}" && exit 0 ;;
    *) fail "unknown option $1; there are --rate, --rounds and --build, and -- before those of troupe train" ;;
  esac
done
((EUID == 0)) || fail "only root makes network namespaces"
command -v ip >/dev/null && command -v tc >/dev/null || fail "there is no ip or no tc: install iproute2"

troupe=$build/troupe
need "$troupe"
readonly here=troupe-wire-$$-a there=troupe-wire-$$-b master=10.213.0.1:7213
job=(--data synthetic --tables 8 --rows 100000 --dim 16 --bag 26 --hidden 64 --batch-size 512 --steps 300 --eval-every 0
  --servers 1 --trainers 1 "${options[@]}")
TROUPE_TOKEN=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
export TROUPE_TOKEN

# on HOST COMMAND...: runs the command on the host.
on() { ip netns exec "$@"; }

# Also ends processes left by a failed run.
remove_hosts() {
  local host
  for host in "$here" "$there"; do
    ip netns pids "$host" 2>/dev/null | xargs -r kill || true
    ip netns delete "$host" 2>/dev/null || true
  done
}
trap 'remove_hosts; rm -rf "$scratch"' EXIT

make_hosts() {
  local host number=0
  ip netns add "$here" && ip netns add "$there"
  ip link add wire netns "$here" type veth peer name wire netns "$there"
  for host in "$here" "$there"; do
    number=$((number + 1))
    ip -n "$host" address add "10.213.0.$number/24" dev wire
    ip -n "$host" link set lo up && ip -n "$host" link set wire up
    on "$host" tc qdisc add dev wire root tbf rate "$rate" burst 512k latency 100ms || fail "tc takes no rate $rate"
  done
}

# sent HOST: the bytes that the host has sent.
sent() { on "$1" cat /sys/class/net/wire/statistics/tx_bytes; }

# train: a run; its last line goes to $scratch/done.
train() {
  on "$here" "$troupe" master --listen "$master" "${job[@]}" --json --quiet >"$scratch/done" 2>"$scratch/errors" &
  local run=$!
  on "$here" "$troupe" join "$master" --as server >/dev/null 2>&1 &
  on "$there" "$troupe" join "$master" --as trainer >/dev/null 2>&1 &
  wait "$run" || fail "the run ended with an error: $(tail -n 1 "$scratch/errors")"
  wait
}

# field NAME: a number of the run's last line.
field() { tail -n 1 "$scratch/done" | sed -n "s/.*\"$1\":\([0-9.e+]*\).*/\1/p"; }

machine
make_hosts
for ((round = 1; round <= rounds; ++round)); do
  before=("$(sent "$here")" "$(sent "$there")")
  train
  after=("$(sent "$here")" "$(sent "$there")")
  field samples_per_s >>"$scratch/rates"
  printf 'round %d: %.0f samples/s, %s; bytes a sample: the server sends %d, the trainer %d\n' "$round" \
    "$(field samples_per_s)" "$rate" $(((after[0] - before[0]) / $(field samples))) \
    $(((after[1] - before[1]) / $(field samples)))
done
printf 'median: %.0f samples/s\n' "$(sort -g "$scratch/rates" | sed -n "$(((rounds + 1) / 2))p")"
