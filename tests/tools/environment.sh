#!/bin/sh
# Makes sure that .venv is there and current; silent and quick when it is. The work is done by environment.py beside
# this file; here an interpreter is found to run it with: $PYTHON if it is set, else the one of an existing .venv, else
# the newest that the lock files cover, else any that is new enough. With the argument `interpreter` it is only named.
set -u
cd "$(dirname "$0")/../.." || exit 1
script=tests/tools/environment.py
task=${1:-build}

if [ "$task" = build ] && [ -f .venv/stamp ] && "${PYTHON:-.venv/bin/python}" -I -S "$script" check 2>/dev/null; then
    exit 0
fi

usable() { "$1" -I -c 'import sys; sys.version_info >= (3, 11) or sys.exit(1); import ensurepip, venv' >/dev/null 2>&1; }
describe() { "$1" -I -c 'import platform; print(platform.python_version())' 2>/dev/null || echo "does not run"; }

found=
seen=
for python in ${PYTHON:-.venv/bin/python python3.14 python3.13 python3.12 python3.11 python3 python}; do
    command -v "$python" >/dev/null 2>&1 || continue
    if usable "$python"; then
        found=$python
        break
    fi
    seen="$seen
  $(command -v "$python"): $(describe "$python")"
done
if [ -z "$found" ]; then
    echo "Presk needs Python 3.11 or newer, with venv and ensurepip (Debian: the package python3-venv)." >&2
    echo "Looked for: ${PYTHON:-python3.14 ... python3.11, python3, python}; found:${seen:- none}" >&2
    echo "Name another interpreter with: make PYTHON=/path/to/python3" >&2
    exit 1
fi
case $task in
build) exec "$found" -I "$script" build ;;
interpreter) command -v "$found" ;;
esac
