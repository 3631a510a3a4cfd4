#!/usr/bin/env bash
# tools/run.sh [options of `troupe train`]: sets up what is missing, builds, and runs the main job.

set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")

"$root/tools/build.sh" release troupe
exec "$root/build/release/troupe" train "$@"
