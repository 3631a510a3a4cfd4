#!/usr/bin/env bash
# bench/mnist.sh [--rounds N] [--seeds N] [--build FOLDER]: the network of apps/examples/mnist.toml with 2 trainers,
# beside PyTorch's DistributedDataParallel with 2 processes (gloo) and dlib, in turn, in one session: samples/s. Then,
# with --seeds, the accuracy on the test images after 2 epochs, of Troupe and PyTorch, for seeds 1 to N.
#
# Needs MNIST (tools/setup.sh mnist), python3-torch and, for dlib, libdlib-dev and liblapack-dev; without dlib its line
# is omitted. Prints each round and the medians. Exit code 0 if Troupe has 1.5 times PyTorch's samples/s and more than
# dlib's, and an accuracy of 98.5 % or, if PyTorch's is lower, within 0.2 % of it (medians); 1 if not, 2 if measuring is
# impossible here.

# shellcheck source=bench/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"
readonly python=/usr/bin/python3 job=$bench/../apps/examples/mnist.toml
readonly images=${XDG_CACHE_HOME:-$HOME/.cache}/troupe/mnist

seeds=0
while (($# > 0)); do
  case $1 in
    --rounds) whole "$1" "${2-}" && rounds=$2 && shift 2 ;;
    --seeds) whole "$1" "${2-}" && seeds=$2 && shift 2 ;;
    --build) build=${2-} && shift $(($# > 1 ? 2 : 1)) ;;
    -h | --help) help_of "${BASH_SOURCE[0]}" && exit 0 ;;
    *) fail "unknown option $1; there are --rounds, --seeds and --build" ;;
  esac
done

troupe=$build/troupe
need "$troupe" "$python"
[[ -f $images/train-images-idx3-ubyte ]] || fail "there is no $images/train-images-idx3-ubyte: get it by tools/setup.sh mnist"
"$python" -c 'import torch' 2>/dev/null || fail "$python has no PyTorch: install python3-torch"
"$build/bench/bench_limit" >"$scratch/limit" || fail "bench_limit ended with an error"
OPENBLAS_CORETYPE=$("$python" -c 'import json, sys; print(json.load(sys.stdin)["blas_kernels"])' <"$scratch/limit")
export OPENBLAS_CORETYPE # for dlib
machine

dlib=
if g++ -std=c++17 -O3 -march=native "$bench/dlib_mnist.cpp" -o "$scratch/dlib_mnist" -ldlib -lopenblas -llapack \
  -lpthread 2>"$scratch/dlib"; then
  dlib=$scratch/dlib_mnist
else
  echo "dlib: not measured: $(head -n 1 "$scratch/dlib")"
fi

for ((round = 1; round <= rounds; ++round)); do
  measure ours "$troupe" train "$job" --epochs 1 --eval-every 0 --json --quiet
  measure processes "$troupe" train "$job" --epochs 1 --eval-every 0 --processes --json --quiet
  measure torch "$python" "$bench/torch_mnist.py"
  [[ -z $dlib ]] || measure dlib "$dlib" 30
  echo "round $round of $rounds"
done
for ((seed = 1; seed <= seeds; ++seed)); do
  measure accuracy "$troupe" train "$job" --epochs 2 --dense-lr 0.001 --lr-schedule constant --seed "$seed" --json --quiet
  measure torch_accuracy "$python" "$bench/torch_mnist.py" --data "$images" --seed "$seed"
  echo "seed $seed of $seeds"
done
"$python" "$bench/mnist.py" "$scratch"
