#!/usr/bin/env bash
# symbols.sh PREFIX: the libraries show their own names only: a program may link a CAF, Boost or fmt of its own.

set -euo pipefail
for library in troupe troupe_program; do
  names=$(nm -DC --defined-only "$1/lib/lib$library.so" | cut -c 20-)
  grep -q 'troupe::cluster::cluster' <<<"$names" || { echo "$library shows nothing of cluster" && exit 1; }
  if grep -vE '^((typeinfo( name)?|(construction )?vtable|VTT|guard variable) for |(non-)?virtual thunk to )?troupe::' <<<"$names"; then
    echo "these are others', in $library" && exit 1
  fi
done
