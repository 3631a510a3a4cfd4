#!/usr/bin/env bash
# symbols.sh PREFIX: checks that the libraries export only their own names: a program may link its own CAF, Boost or
# fmt.

set -euo pipefail
for library in troupe troupe_program; do
  names=$(nm -DC --defined-only "$1/lib/lib$library.so" | cut -c 20-)
  grep -q 'troupe::cluster::cluster' <<<"$names" || { echo "$library shows nothing of cluster" && exit 1; }
  if grep -vE '^((typeinfo( name)?|(construction )?vtable|VTT|guard variable) for |(non-)?virtual thunk to )?troupe::' <<<"$names"; then
    echo "these are others', in $library" && exit 1
  fi
done
