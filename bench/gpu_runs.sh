#!/usr/bin/env bash
# bench/gpu_runs.sh [--rounds N] [--seconds S] [--build FOLDER]: whole training runs on one CUDA card, of Troupe (1
# trainer, its tables on the card) and of PyTorch, eager and with CUDA graphs (bench/torch_runs.py), beside the required
# rates. Each round runs each of them twice, in the order ABBA, and uses the mean.
#
#   synthetic  a table of 1,000,000 x 64, bags of 26, layers 512 and 256, at batches of 128, 1,024, 8,192 and 65,536;
#              and 26 tables of 100,000 x 64, bags of 1, at batches of 16,384: steps/s. Batches of 128 and 1,024 once
#              more with --step-graph on, only for Troupe
#   bf16       bench_gpu's step in a graph, beside bench/torch_gpu.py's: samples/s
#   recsys     bench_gpu's lookup and update of 10 tables of 1,677,721 x 128, 1,048,570 ids: millions of ids/s
#   criteo     10 epochs of 1,000,000 rows of text in Criteo's format through DLRM with dots, batches of 16,384:
#              samples/s. PyTorch has no run of it
#   mnist      apps/examples/mnist.toml on random images, at batches of 64 and 1,024: samples/s
#   dcn        26 tables of 100,000 x 128, bags of 8, cross layers of rank 512, batches of 6,912, products in bf16:
#              samples/s. For the last two, PyTorch's figures are those of an H100, not measured again
#
# --seconds: the duration of a PyTorch run, and of a Troupe run at the required rate (3). PyTorch is that of `python3`;
# if it finds no card, Troupe's figures stand alone. Prints each round and the medians. Exit code 0 if it was measured,
# whatever the figures, and if there is no GPU, which it reports ("skipped"); 2 if measuring is impossible.

# shellcheck source=bench/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"
readonly python=python3
readonly on_card=(--device cuda --server-device cuda --trainers 1 --eval-every 0 --quiet --json)

seconds=3
while (($# > 0)); do
  case $1 in
    --rounds) whole "$1" "${2-}" && rounds=$2 && shift 2 ;;
    --seconds) whole "$1" "${2-}" && seconds=$2 && shift 2 ;;
    --build) build=${2-} && shift $(($# > 1 ? 2 : 1)) ;;
    -h | --help) help_of "${BASH_SOURCE[0]}" && exit 0 ;;
    *) fail "unknown option $1; there are --rounds, --seconds and --build" ;;
  esac
done
troupe=$build/troupe gpu=$build/bench/bench_gpu make_rows=$build/bench/bench_make_rows
need "$troupe" "$gpu" "$make_rows"
"$troupe" devices >"$scratch/devices" 2>&1 || {
  echo "skipped: no CUDA device ($(grep -m 1 '^cuda' "$scratch/devices" | tr -s ' '))"
  exit 0
}

# by_turns SIDE NAME WHO...: all rounds of a job: `SIDE WHO FILE` for each WHO, forward and then in reverse order.
by_turns() {
  local side=$1 name=$2 round i who
  shift 2
  for ((round = 1; round <= rounds; ++round)); do
    for who in "$@"; do "$side" "$who" "$name.$who.$round"; done
    for ((i = $#; i > 0; --i)); do "$side" "${!i}" "$name.${!i}.$round"; done
  done
}

# show NAME TITLE FIELD ASKED [PEER...]
show() {
  local name=$1 title=$2 field=$3 asked=$4 peer peers=()
  shift 4
  for peer in "$@"; do peers+=("PyTorch $peer=$name.$peer"); done
  "$python" "$bench/asked.py" "$scratch" "$rounds" "$title" "$field" "$asked" "$name.troupe" "${peers[@]}" || true
}

# synthetic_side WHO FILE: a run of the sizes in $batch, $tables, $bag, $rows and $steps, with $options.
synthetic_side() {
  if [[ $1 == troupe ]]; then
    measure "$2" "$troupe" train --data synthetic --tables "$tables" --rows "$rows" --dim 64 --bag "$bag" \
      --hidden 512,256 --batch-size "$batch" --steps "$steps" "${on_card[@]}" "${options[@]}"
  else
    measure "$2" "$python" "$bench/torch_runs.py" --mode "$1" --tables "$tables" --rows "$rows" --bag "$bag" \
      --batch "$batch" --seconds "$seconds"
  fi
}

# synthetic TABLES ROWS BAG BATCH ASKED BEFORE [OPTION...]: in steps/s; BEFORE is the rate of PyTorch with graphs on an
# H100. With options, only Troupe runs.
synthetic() {
  local tables=$1 rows=$2 bag=$3 batch=$4 asked=$5 before=$6 steps=$(($5 * seconds)) options=("${@:7}") others=()
  local name=synthetic.$1.$4${7:+.with} words="tables: $1, batch: $4${7:+, ${*:7}}"
  [[ -n ${7-} ]] || others=("${peers[@]}")
  by_turns synthetic_side "$name" troupe "${others[@]}"
  show "$name" "$words (PyTorch with graphs had $before on an H100)" steps_per_s "$asked" "${others[@]}"
}

# bf16_side WHO FILE: also extracts the table figures of bench_gpu's run, for recsys.
bf16_side() {
  local optimizer command=("$gpu" --json)
  [[ $1 == troupe ]] || command=("$python" "$bench/torch_gpu.py" --json)
  measure all "${command[@]}"
  grep '"step".*"bf16, graphs"' "$scratch/out" | sed 's/"rate"/"samples_per_s"/' >>"$scratch/$2" ||
    fail "${command[*]} printed no step in bf16"
  [[ $1 == troupe ]] || return 0
  for optimizer in sgd lazy-adam; do
    grep "\"recsys\".*$optimizer\"" "$scratch/out" | sed 's/"rate"/"m_ids_per_s"/' \
      >>"$scratch/recsys.$optimizer.${2##*.}" || fail "$gpu printed no recsys with $optimizer"
  done
}

criteo_side() {
  measure "$2" "$troupe" train --data "criteo:$scratch/criteo.tsv" --interaction dot --dim 16 \
    --bottom-hidden 512,256,64 --hidden 256 --batch-size 16384 --epochs 10 "${on_card[@]}"
}

mnist_side() {
  measure "$2" "$troupe" train "$bench/../apps/examples/mnist.toml" --data "idx:$scratch/images,$scratch/labels" \
    --batch-size "$batch" --epochs "$epochs" "${on_card[@]}"
}

# mnist BATCH EPOCHS ASKED BEFORE: in samples/s; BEFORE is the rate of PyTorch with graphs on an H100.
mnist() {
  local batch=$1 epochs=$2
  by_turns mnist_side "mnist.$batch" troupe
  show "mnist.$batch" "mnist, batch: $batch (PyTorch with graphs had $4 on an H100)" samples_per_s "$3"
}

dcn_side() {
  measure "$2" "$troupe" train --data synthetic --tables 26 --rows 100000 --dim 128 --bag 8 --interaction dcn \
    --hidden 1024,1024,512,256 --batch-size 6912 --matmul-precision bf16 --steps $((200 * seconds)) "${on_card[@]}"
}

peers=(eager graphs)
torch=$("$python" -c 'import torch; print(f"PyTorch {torch.__version__}" if torch.cuda.is_available() else "")' \
  2>/dev/null) || true
[[ -n $torch ]] || peers=()
machine
printf '%s\n' "$("$troupe" --version | sed -n 1p), ${torch:-no PyTorch that finds the card}" "$(<"$scratch/devices")" ''

synthetic 1 1000000 26 128 8000 7,520
synthetic 1 1000000 26 128 8000 7,520 --step-graph on
synthetic 1 1000000 26 1024 4500 3,471
synthetic 1 1000000 26 1024 4500 3,471 --step-graph on
synthetic 1 1000000 26 8192 1200 485
synthetic 1 1000000 26 65536 250 62
synthetic 26 100000 1 16384 600 235

by_turns bf16_side bf16 troupe "${peers[@]:1}"
show bf16 "step in bf16 (PyTorch with graphs had 29.6 M on an H100)" samples_per_s 45e6 "${peers[@]:1}"

# The required times are 0.95 and 1.35 ms per step: FBGEMM's TBE took 0.96 and 1.35 on an H100.
"$python" "$bench/asked.py" "$scratch" "$rounds" "10 tables, sgd" m_ids_per_s 1104 recsys.sgd || true
"$python" "$bench/asked.py" "$scratch" "$rounds" "10 tables, lazy-adam" m_ids_per_s 777 recsys.lazy-adam || true

"$make_rows" criteo 1000000 "$scratch/criteo.tsv" || fail "$scratch has no room for the file: set TMPDIR"
by_turns criteo_side criteo troupe
show criteo "DLRM on Criteo's format (asked for on 16 cores)" samples_per_s 8e6

# 60,000 random images of 28 x 28 in 10 classes, in the IDX format.
{
  printf '\0\0\10\3\0\0\352\140\0\0\0\34\0\0\0\34'
  head -c $((60000 * 28 * 28)) /dev/urandom
} >"$scratch/images"
{
  printf '\0\0\10\1\0\0\352\140'
  for ((i = 0; i < 6000; ++i)); do printf '\0\1\2\3\4\5\6\7\10\11'; done
} >"$scratch/labels"
mnist 64 $((4 * seconds)) 200000 150,737
mnist 1024 $((7 * seconds)) 400000 313,147

by_turns dcn_side dcn troupe
show dcn "DLRM-DCNv2 (PyTorch with graphs had 0.97 M on an H100)" samples_per_s 1.3e6
