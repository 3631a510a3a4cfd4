#!/usr/bin/env bash
# tools/build_seconds.sh [PRESET]: prints the seconds of compiling and linking for each folder of build/PRESET
# (release), from Ninja's log: the sum of each file's time when it was last made.

# shellcheck source=tools/common.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh"

preset=${1:-release}
check_preset "$preset"
log=$root/build/$preset/.ninja_log
[[ -f $log ]] || fail "$log does not exist; tools/build.sh $preset makes it"
awk -F '\t' '
  NR > 1 { last[$4] = $2 - $1; made_by[$4] = $1 FS $2 FS $5 }
  END {
    for (file in last) {
      if (counted[made_by[file]]++) continue  # a command that makes several files counts once
      folder = file
      if (folder !~ /\.o$/) folder = "(libraries, programs, lists of tests)"
      else if (folder ~ /^CMakeFiles\/troupe_cuda/) folder = "kernels/cuda"
      else sub(/\/CMakeFiles\/.*/, "", folder)
      if (folder ~ /^CMakeFiles/) folder = "cmake"
      seconds[folder] += last[file] / 1000
      files[folder] += 1
      all += last[file] / 1000
    }
    for (folder in seconds) printf "%8.1f s %5d  %s\n", seconds[folder], files[folder], folder | "sort -rn"
    close("sort -rn")
    printf "%8.1f s        in all\n", all
  }' "$log"
