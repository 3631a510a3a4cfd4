#!/usr/bin/env bash
# tools/gpu_check.sh [1|2|3] [LIBRARIES]: checks the CUDA backend on a machine with a GPU, which may have no network.
# Ends with a table. There are three parts, each of which builds what it needs, unless that exists, and takes at most 9
# minutes; without a number the first two run, in at most 17.
#
#   1  the tests that need a GPU, and the reference runs
#   2  compute-sanitizer over the kernels' tests, and the benchmark
#   3  whole runs beside PyTorch's (bench/gpu_runs.sh), one short round. Run it after another part: its time does not
#      suffice for a build, too
#
# LIBRARIES is the file that `pack` made; without it the libraries must be installed (tools/setup.sh).
#
# tools/gpu_check.sh pack FOLDER: makes FOLDER/libraries.tar.xz from this system: the libraries to build Troupe with,
# without the compiler, CMake, Ninja and CUDA.
#
# Exit status: 0: everything passed; 1: something failed; 3: nothing failed, but something was not checked, for example
# because no time was left for it.
# Environment: TROUPE_CHECK_SECONDS: the limit for everything (520 for one part, 1020 for two). Logs stay in
# build/gpu_check.
#
# Limits are about twice the times of one H100 with 16 cores: build 300 s, end-to-end tests 156 s, racecheck 250 s.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

build=$root/build/gpu_check
usage="usage: tools/gpu_check.sh [1|2|3] [LIBRARIES], or tools/gpu_check.sh pack FOLDER"

# -- carrying libraries -----------------------------------------------------------------------------------------------

packages=(googletest libbenchmark-dev libbenchmark1debian libboost1.81-dev libcli11-dev libdnnl-dev libdnnl2
  libexpected-dev libfmt-dev libfmt9 libgfortran5 libgmock-dev libgomp1 libgtest-dev libhwy-dev libhwy1
  libopenblas-pthread-dev libopenblas0-pthread libquadmath0 libssl-dev libssl3 libtoml11-dev libxxhash-dev libxxhash0
  libzstd-dev libzstd1 ocl-icd-libopencl1 zlib1g zlib1g-dev)

# Lists the packages' files that a build needs, relative to /. Omits a static library if there is a shared one.
files_of_packages() {
  local package file
  for package in "${packages[@]}"; do
    dpkg -L "$package" 2>/dev/null || say "$package is not installed: omitted"
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
  # By its name in Debian's alternatives: these are links of the system, which no package contains.
  cp -a "/usr/lib/$arch/openblas-pthread"/libopenblas*.so* "$scratch/usr/lib/$arch/"
  # Prefixes names with a folder; links to the system's folders become links within their own folder.
  XZ_OPT='-T0 -6' tar -cJf "$folder/libraries.tar.xz" \
    --transform 's,^,libraries/,S;s,/caf-[^/]*,/caf,S;s,^/lib/.*/,,RH' \
    -C / --verbatim-files-from -T "$scratch/files" -C "$scratch" usr -C "$(dirname "$caf")" "$(basename "$caf")"
  say "made $folder/libraries.tar.xz, $(du -h "$folder/libraries.tar.xz" | cut -f1)"
}

# -- steps ------------------------------------------------------------------------------------------------------------

rows=() started=()
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

# start NAME LIMIT COMMAND...: begins a step, which may take LIMIT seconds, at most the time left for everything.
start() {
  local name=$1 limit=$2 left=$((seconds_in_all - SECONDS)) file
  shift 2
  file=$build/${name//[^a-z0-9]/_}
  started+=("$name")
  rm -f "$file.end"
  if ((left < 5)); then
    echo "none 0" >"$file.end"
    return
  fi
  say "$name"
  (
    begin=$SECONDS status=0
    timeout --kill-after=5 $((limit < left ? limit : left)) "$@" >"$file.log" 2>&1 </dev/null || status=$?
    ((limit <= left || (status != 124 && status != 137))) || status=unfinished
    echo "$status $((SECONDS - begin))" >"$file.end"
  ) &
}

# finish: waits for the begun steps, and notes each result, with the end of its log if it failed. Returns whether all
# passed.
finish() {
  local name file status seconds passed=0
  wait
  for name in "${started[@]}"; do
    file=$build/${name//[^a-z0-9]/_}
    read -r status seconds <"$file.end"
    case $status in
      0) note "$name" "passed$(summary "$file.log")" "$seconds" && continue ;;
      none) note "$name" "skipped: no time left" 0 ;;
      unfinished) note "$name" "skipped: not over when the time was" "$seconds" ;;
      124 | 137) note "$name" "FAILED: took longer than $seconds s" "$seconds" ;;
      *) note "$name" "FAILED: status $status, ${file#"$root/"}.log" "$seconds" ;;
    esac
    passed=1
    [[ $status == none ]] || tail -n 30 "$file.log" >&2
  done
  started=()
  return $passed
}

# step NAME LIMIT COMMAND...: runs one step. Returns whether it passed.
step() { start "$@" && finish; }

# summary LOG: prints the number of tests that GoogleTest or CTest counted, if one of them ran.
summary() {
  sed -nE 's/^\[  PASSED  \] ([0-9]+ tests?).*/: \1/p; s/^100% tests passed, .* out of ([0-9]+)$/: \1 tests/p' "$1" |
    tail -n 1
}

# Whether the tests find a device: without one they skip themselves, and say why.
has_device() {
  "$build/tests/kernels/kernels_test" --gtest_filter='StreamOrder/Gpu.CopiesThereAndBack' >"$build/device.log" 2>&1
  ! grep -q 'no CUDA device' "$build/device.log"
}

find_libraries() {
  local given=$1
  [[ -n $given ]] || return 0
  [[ -e $given ]] || fail "'$given' does not exist; tools/gpu_check.sh pack FOLDER makes it"
  if [[ -d $given && -f $given/libraries.tar.xz ]]; then given=$given/libraries.tar.xz; fi
  if [[ -f $given ]]; then
    say "unpacking $given"
    tar -C "$build" -xJf "$given"
    given=$build/libraries
  fi
  given=$(readlink -f "$given")
  libraries=$(compgen -G "$given/usr/lib/*-linux-gnu") || fail "'$1' contains no libraries"
  options+=("-DCMAKE_PREFIX_PATH=$given/usr" "-DCAF_ROOT=$given/caf" "-DOPENSSL_ROOT_DIR=$given/usr"
    "-DCMAKE_LIBRARY_ARCHITECTURE=$(basename "$libraries")")
}

# find_packaged NAME: NCCL and cuDNN may exist as Python packages only; sets NAME_ROOT to their folder.
find_packaged() {
  local name=$1 root=${1^^}_ROOT found folder
  [[ -z ${!root-} ]] || return 0
  found=$(python3 -c "import nvidia.$name; print(list(nvidia.$name.__path__)[0])" 2>/dev/null) || return 0
  for folder in /usr/local/cuda/include /usr/include /usr/include/*-linux-gnu; do
    [[ ! -e $folder/$name.h ]] || return 0
  done
  export "$root=$found"
}

build_all() {
  local targets=(kernels_test troupe_cuda)
  if [[ $parts == *1* ]]; then targets+=(end_to_end_test troupe); fi
  if [[ $parts == *2* ]]; then targets+=(bench_gpu); fi
  if [[ $parts == *3* ]]; then targets+=(troupe bench_gpu bench_make_rows); fi
  step configure 60 cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTROUPE_CUDA=ON "${options[@]}" &&
    step build 420 cmake --build "$build" --parallel "$(job_count)" --target "${targets[@]}"
}

# skip_all REASON NAME...
skip_all() {
  local reason=$1 name
  shift
  for name in "$@"; do note "$name" "skipped: $reason" 0; done
}

# All of a program's tests in one process: initializing a device takes longer than most of them.
gpu_tests() {
  echo "$build/tests/$1/$1_test" "--gtest_filter=*Gpu.*"
}

check_results() {
  local run
  # shellcheck disable=SC2046  # two arguments
  step "kernels' tests" 120 $(gpu_tests kernels) || true
  # shellcheck disable=SC2046
  step "end-to-end tests" 320 $(gpu_tests end_to_end) || true
  for run in "$root"/tests/reference_runs/*.safetensors; do
    step "parity $(basename "$run" .safetensors)" 30 "$build/troupe" parity "$run" --device cuda || true
  done
}

# sanitized TOOL LIMIT TESTS: begins a tool of compute-sanitizer over our own kernels and their calls. memcheck does not
# report errors that CUDA returns: a test provokes one, and the tests themselves find every other.
sanitized() {
  local tool=$1 limit=$2 tests=$3 more=()
  if [[ $tool == memcheck* ]]; then more=(--report-api-errors no); fi
  start "$tool" "$limit" "$sanitizer" --tool "${tool%% *}" "${more[@]}" --error-exitcode 9 \
    "$build/tests/kernels/kernels_test" "--gtest_filter=$tests"
}

# NCCL's kernels are not checked. The tests of the device's memory read how much of it is free: they run alone.
# racecheck finds hazards in shared memory, which these suites' kernels use.
run_sanitizers() {
  local others='*Gpu.*-CommunicatorGpu.*:DeviceMemory/Gpu.*' shares suite
  for suite in Convolution Interaction Linear Loss Elementwise Normalization Pooling TableGradient Update; do
    shares="${shares:+$shares:}Stream$suite/Gpu.*"
  done
  sanitizer=$(command -v compute-sanitizer || echo "$(dirname "${CUDACXX:-/usr/local/cuda/bin/nvcc}")/compute-sanitizer")
  if [[ ! -x $sanitizer ]]; then
    skip_all "compute-sanitizer is not installed" "${sanitizer_steps[@]}"
    return
  fi
  sanitized "memcheck of device memory" 60 'DeviceMemory/Gpu.*'
  finish || true
  sanitized racecheck 400 "$shares"
  sanitized memcheck 300 "$others"
  sanitized initcheck 300 "$others"
  sanitized synccheck 300 "$others"
  finish || true
}

check_kernels() {
  run_sanitizers
  ! step benchmark 120 "$build/bench/bench_gpu" || cat "$build/benchmark.log"
}

# Shows the measurements, even if the time did not suffice for all of them.
check_runs() {
  rm -f "$build/whole_runs.log"
  step "whole runs" 480 "$root/bench/gpu_runs.sh" --rounds 1 --seconds 1 --build "$build" || true
  [[ ! -e $build/whole_runs.log ]] || cat "$build/whole_runs.log"
}

check() {
  local options=() libraries='' later=()
  local sanitizer_steps=("memcheck of device memory" racecheck memcheck initcheck synccheck)
  if [[ $parts == *1* ]]; then later+=("kernels' tests" "end-to-end tests" parity); fi
  if [[ $parts == *2* ]]; then later+=("${sanitizer_steps[@]}" benchmark); fi
  if [[ $parts == *3* ]]; then later+=("whole runs"); fi
  mkdir -p "$build"
  find_libraries "$1"
  find_packaged nccl
  find_packaged cudnn
  if ! build_all; then
    skip_all "not built" "${later[@]}"
  else
    [[ -z $libraries ]] || export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    if has_device; then
      note device passed 0
      if [[ $parts == *1* ]]; then check_results; fi
      if [[ $parts == *2* ]]; then check_kernels; fi
      if [[ $parts == *3* ]]; then check_runs; fi
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
    [[ $# == 2 ]] || fail "$usage"
    pack "$2"
    return
  fi
  parts=12
  if [[ ${1-} == [123] ]]; then
    parts=$1
    shift
  fi
  (($# <= 1)) || fail "$usage"
  seconds_in_all=${TROUPE_CHECK_SECONDS:-$((${#parts} * 500 + 20))}
  check "${1-}"
}

main "$@"
