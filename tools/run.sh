#!/usr/bin/env bash
# tools/run.sh [options of `troupe train`]: installs what is missing, builds, and trains the default job.

set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")

"$root/tools/build.sh" release troupe
exec "$root/build/release/troupe" train "$@"
