#!/usr/bin/env bash
# tools/gpu_check.sh [LIBRARIES]: checks the CUDA backend on a machine with a GPU, which may have no network: builds,
# runs the tests that need a GPU, compares with the reference runs, looks for memory errors and races, measures. Ends
# with a table. LIBRARIES is what `pack` made; without it the libraries must be installed (tools/setup.sh).
#
# tools/gpu_check.sh pack FOLDER: makes FOLDER/libraries.tar.xz there, of what is installed here: what Troupe is built
# with, but for the compiler, CMake, Ninja and CUDA.
#
# Exit status: 0: everything passed; 1: something failed; 3: nothing failed, but something could not be checked.
# Environment: TROUPE_CHECK_SECONDS: how long all of it may take (470). Logs stay in build/gpu_check.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

build=$root/build/gpu_check
seconds_in_all=${TROUPE_CHECK_SECONDS:-470}

# -- carrying libraries -----------------------------------------------------------------------------------------------

packages=(googletest libbenchmark-dev libbenchmark1debian libboost1.81-dev libcli11-dev libexpected-dev libfmt-dev
  libfmt9 libgfortran5 libgmock-dev libgtest-dev libhwy-dev libhwy1 libopenblas-pthread-dev libopenblas0-pthread
  libquadmath0 libssl-dev libssl3 libtoml11-dev libxxhash-dev libxxhash0 libzstd-dev libzstd1 zlib1g zlib1g-dev)

# Lists what a build needs of the packages, from / on. Where there is a shared library, its static twin stays here.
files_of_packages() {
  local package file
  for package in "${packages[@]}"; do
    dpkg -L "$package" 2>/dev/null || say "$package is not installed: left out"
  done | while read -r file; do
    [[ $file =~ ^(/usr)?/(include|lib|share/cmake|share/CLI11)/ && -f $file ]] || continue
    [[ $file != *.a || ! -e ${file%.a}.so ]] || continue
    [[ ! $file =~ (openblas-pthread/lib|engines-3|ossl-modules) ]] || continue
    file=${file#/}
    echo "${file/#lib\//usr/lib/}"
  done | sort -u
}

pack() {
  local folder=$1 caf arch
  caf=$(compgen -G "$cache/caf-*-release") || fail "CAF is not in $cache; run tools/setup.sh first"
  arch=$(gcc -print-multiarch)
  say "collecting libraries"
  files_of_packages >"$scratch/files"
  mkdir -p "$folder" "$scratch/usr/lib/$arch"
  # Under the name that Debian's alternatives give it, which are links of the system's and in no package.
  cp -a "/usr/lib/$arch/openblas-pthread"/libopenblas*.so* "$scratch/usr/lib/$arch/"
  # Names get a folder in front; links to the system's folders become links within their own.
  XZ_OPT='-T0 -6' tar -cJf "$folder/libraries.tar.xz" \
    --transform 's,^,libraries/,S;s,/caf-[^/]*,/caf,S;s,^/lib/.*/,,RH' \
    -C / --verbatim-files-from -T "$scratch/files" -C "$scratch" usr -C "$(dirname "$caf")" "$(basename "$caf")"
  say "made $folder/libraries.tar.xz, $(du -h "$folder/libraries.tar.xz" | cut -f1)"
}

# -- steps ------------------------------------------------------------------------------------------------------------

rows=()
failed=0 skipped=0

# note STEP RESULT SECONDS
note() {
  rows+=("$(printf '%-34s %-44s %5s' "$1" "$2" "$3")")
  case $2 in
    skipped*) skipped=1 ;;
    passed*) ;;
    *) failed=1 ;;
  esac
}

# step NAME LIMIT COMMAND...: runs it for at most LIMIT seconds, or what is left of all; shows the end of its log if it
# fails. Returns whether it passed.
step() {
  local name=$1 limit=$2 left=$((seconds_in_all - SECONDS)) begin=$SECONDS log status=0
  shift 2
  log=$build/${name//[^a-z0-9]/_}.log
  if ((left < 5)); then
    note "$name" "skipped: no time left" 0
    return 1
  fi
  say "$name"
  timeout --kill-after=5 $((limit < left ? limit : left)) "$@" >"$log" 2>&1 </dev/null || status=$?
  case $status in
    0) note "$name" "passed$(summary "$log")" $((SECONDS - begin)) && return ;;
    124 | 137) note "$name" "FAILED: took longer than $((SECONDS - begin)) s" $((SECONDS - begin)) ;;
    *) note "$name" "FAILED: status $status, ${log#"$root/"}" $((SECONDS - begin)) ;;
  esac
  tail -n 30 "$log" >&2
  return 1
}

# summary LOG: how many tests GoogleTest or CTest counted, if it was one of them.
summary() {
  sed -nE 's/^\[  PASSED  \] ([0-9]+ tests?).*/: \1/p; s/^100% tests passed, .* out of ([0-9]+)$/: \1 tests/p' "$1" |
    tail -n 1
}

# Whether the program finds a device.
has_device() { grep -q '"usable":true' "$build/devices.json"; }

find_libraries() {
  local given=$1
  [[ -n $given ]] || return 0
  [[ -e $given ]] || fail "'$given' is not there; tools/gpu_check.sh pack FOLDER makes it"
  if [[ -d $given && -f $given/libraries.tar.xz ]]; then given=$given/libraries.tar.xz; fi
  if [[ -f $given ]]; then
    say "unpacking $given"
    tar -C "$build" -xJf "$given"
    given=$build/libraries
  fi
  given=$(readlink -f "$given")
  libraries=$(compgen -G "$given/usr/lib/*-linux-gnu") || fail "'$1' holds no libraries"
  options+=("-DCMAKE_PREFIX_PATH=$given/usr" "-DCAF_ROOT=$given/caf" "-DOPENSSL_ROOT_DIR=$given/usr"
    "-DCMAKE_LIBRARY_ARCHITECTURE=$(basename "$libraries")")
}

# NCCL may be there as a package of Python's only.
find_nccl() {
  local found
  [[ -z ${NCCL_ROOT-} ]] || return 0
  found=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2>/dev/null) || return 0
  if [[ ! -e /usr/local/cuda/include/nccl.h && ! -e /usr/include/nccl.h ]]; then export NCCL_ROOT=$found; fi
}

# Test programs of which some suite needs a GPU.
gpu_test_programs() {
  grep -l 'Gpu' "$root"/tests/*/*_test.cpp | xargs -n1 dirname | sort -u |
    sed 's|.*/\(.*\)|\1_test|'
}

build_all() {
  local targets
  mapfile -t targets < <(gpu_test_programs)
  targets+=(troupe troupe_cuda)
  if grep -q 'add_executable(bench_gpu' "$root/bench/CMakeLists.txt"; then targets+=(bench_gpu); fi
  step configure 60 cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTROUPE_CUDA=ON "${options[@]}" &&
    step build 300 cmake --build "$build" --parallel "$(job_count)" --target "${targets[@]}"
}

# skip_all REASON NAME...
skip_all() {
  local reason=$1 name
  shift
  for name in "$@"; do note "$name" "skipped: $reason" 0; done
}

# run_sanitizer TOOL: over our own kernels and their calls; NCCL's are left to NCCL.
run_sanitizer() {
  local tool=$1 program=${CUDACXX:-/usr/local/cuda/bin/nvcc}
  program=$(command -v compute-sanitizer || echo "$(dirname "$program")/compute-sanitizer")
  if [[ ! -x $program ]]; then
    note "$tool" "skipped: compute-sanitizer is not installed" 0
  else
    step "$tool" 120 "$program" --tool "$tool" --error-exitcode 9 "$build/tests/kernels/kernels_test" \
      --gtest_filter='*Gpu.*-CommunicatorGpu.*' || true
  fi
}

check_device() {
  local run
  step "tests that need a GPU" 120 ctest --test-dir "$build" -L '^gpu$' --output-on-failure --no-tests=error \
    --timeout 60 || true
  for run in "$root"/tests/reference_runs/*.safetensors; do
    step "parity $(basename "$run" .safetensors)" 30 "$build/troupe" parity "$run" --device cuda || true
  done
  run_sanitizer memcheck
  run_sanitizer racecheck
  if [[ -x $build/bench/bench_gpu ]]; then
    ! step benchmark 90 "$build/bench/bench_gpu" || cat "$build/benchmark.log"
  else
    note benchmark "skipped: bench_gpu was not built" 0
  fi
}

check() {
  local options=() libraries='' later=("tests that need a GPU" "parity" memcheck racecheck benchmark)
  mkdir -p "$build"
  find_libraries "${1-}"
  find_nccl
  if ! build_all; then
    skip_all "not built" "${later[@]}"
  else
    [[ -z $libraries ]] || export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    "$build/troupe" devices --json >"$build/devices.json" 2>/dev/null || true
    "$build/troupe" devices >&2 || true
    if has_device; then
      note device passed 0
      check_device
    else
      skip_all "no CUDA device" device "${later[@]}"
    fi
  fi
  printf '%-34s %-44s %5s\n' step result seconds
  printf '%s\n' "${rows[@]}"
  ((failed == 0)) || exit 1
  ((skipped == 0)) || exit 3
}

main() {
  if [[ ${1-} == pack ]]; then
    [[ $# == 2 ]] || fail "usage: tools/gpu_check.sh pack FOLDER"
    pack "$2"
  else
    (($# <= 1)) || fail "usage: tools/gpu_check.sh [LIBRARIES]"
    check "$@"
  fi
}

main "$@"
