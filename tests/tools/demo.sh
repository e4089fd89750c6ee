#!/bin/sh
# The largest thing that works on real input; see demo.py beside this file.
set -eu
cd "$(dirname "$0")/../.."
exec .venv/bin/python tests/tools/demo.py
