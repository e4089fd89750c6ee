#!/bin/sh
# The largest thing that works on real input: every program of the corpus is checked, and what the compiler found is shown.
set -eu
cd "$(dirname "$0")/../.."
find corpus -name '*.psk' | LC_ALL=C sort | tr '\n' '\0' | xargs -0 .venv/bin/presk check --summary
