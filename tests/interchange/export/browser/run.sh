#!/usr/bin/env bash
# Runs the browser tests in an environment of their own: tests/interchange/export/browser/run.sh [pytest options]
# The browser is the machine's Chromium, or what LCM_TEST_CHROMIUM names; the pages are written by .venv.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
folder=tests/interchange/export/browser
venv=.venvs/browser

made_from=$(sha256sum < "$folder/requirements.txt")
if [[ "$(cat "$venv/.made-from" 2>/dev/null)" != "$made_from" ]]; then
    echo "Setting up $venv …"
    rm -rf "$venv"
    "${PYTHON:-.venv/bin/python}" -m venv "$venv"
    "$venv/bin/python" -m pip --disable-pip-version-check --quiet install --requirement "$folder/requirements.txt"
    echo "$made_from" > "$venv/.made-from"
fi

export TEST_BROWSER=1 LCM_TEST_PYTHON=${LCM_TEST_PYTHON:-$PWD/.venv/bin/python}
exec "$venv/bin/python" -m pytest "$folder" --confcutdir "$folder" -p no:cacheprovider "$@"
