#!/usr/bin/env bash
# symbols.sh PREFIX: the library shows its own names only: a program may link a CAF, Boost or fmt of its own.

set -euo pipefail
names=$(nm -DC --defined-only "$1/lib/libtroupe.so" | cut -c 20-)
grep -q 'troupe::cluster::cluster' <<<"$names" || { echo "it shows nothing of cluster" && exit 1; }
if grep -vE '^((typeinfo( name)?|(construction )?vtable|VTT|guard variable) for |(non-)?virtual thunk to )?troupe::' <<<"$names"; then
  echo "these are others'" && exit 1
fi
