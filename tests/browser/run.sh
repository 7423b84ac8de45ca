#!/usr/bin/env bash
# Runs the browser tests in an environment of their own: tests/browser/run.sh [pytest options]
# The browser is the machine's Chromium, or what LCM_TEST_CHROMIUM names; pages come from .venv. npm brings axe.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=tests/browser
venv=.venvs/browser

made_from=$(cat "$folder/requirements.txt" "$folder/axe-version" | sha256sum)
if [[ "$(cat "$venv/.made-from" 2>/dev/null)" != "$made_from" ]]; then
    echo "Setting up $venv …"
    rm -rf "$venv"
    "${PYTHON:-.venv/bin/python}" -m venv "$venv"
    "$venv/bin/python" -m pip --disable-pip-version-check --quiet install --requirement "$folder/requirements.txt"
    npm install --silent --no-audit --no-fund --prefix "$venv/axe" "axe-core@$(cat "$folder/axe-version")"
    echo "$made_from" > "$venv/.made-from"
fi

export TEST_BROWSER=1 LCM_TEST_PYTHON=${LCM_TEST_PYTHON:-$PWD/.venv/bin/python}
export LCM_TEST_AXE=${LCM_TEST_AXE:-$PWD/$venv/axe/node_modules/axe-core/axe.min.js}
failed=0
for suite in export web; do
    "$venv/bin/python" -m pytest "$folder/$suite" --confcutdir "$folder" -p no:cacheprovider "$@" || failed=1
done
exit $failed
