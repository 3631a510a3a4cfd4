#!/usr/bin/env bash
# run.sh TEST: runs one test file of this folder in a browser; if something is missing, reports it and exits with 77.

set -euo pipefail

skip() {
  echo "skipped: $*; tools/setup.sh installs what is missing"
  exit 77
}

command -v node >/dev/null || skip "there is no node"
[[ -d $TROUPE_BROWSER_TESTS/node_modules/playwright-core ]] || skip "there is no playwright-core in $TROUPE_BROWSER_TESTS"
TROUPE_CHROMIUM=$(command -v chromium || true)
[[ -n $TROUPE_CHROMIUM ]] || skip "there is no chromium"
export TROUPE_CHROMIUM

exec node --test "$(dirname "${BASH_SOURCE[0]}")/$1"
