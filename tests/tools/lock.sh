#!/bin/sh
# Rewrites requirements/*.lock from pyproject.toml. Pins that still fit are kept, unless UPGRADE is set. The resolver (uv)
# is installed from its own lock into an environment of its own, so that this works when .venv cannot be made: the usual
# reason to lock again is a dependency that is not in the lock yet.
set -eu
cd "$(dirname "$0")/../.."
tool=.venv/lock-tool
if ! cmp -s requirements/lock-tool.lock "$tool/stamp"; then
    python=$(sh tests/tools/environment.sh interpreter)
    "$python" -m venv --clear "$tool"
    "$tool/bin/python" -m pip --disable-pip-version-check --no-input --quiet --quiet \
        install --require-hashes --no-deps --requirement requirements/lock-tool.lock
    cp requirements/lock-tool.lock "$tool/stamp"
fi

# The same file for every platform and for every Python from 3.11 on, with one version of each package throughout.
compile() {
    output=$1
    shift
    "$tool/bin/uv" --no-config --quiet pip compile --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
        --no-python-downloads --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
        ${UPGRADE:+--upgrade} --output-file "$output" "$@"
}
compile requirements/run.lock pyproject.toml
compile requirements/dev.lock pyproject.toml --group dev --constraints requirements/run.lock
compile requirements/lock-tool.lock --group lock
