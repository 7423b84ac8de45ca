#!/usr/bin/env bash
# Runs one host's real tests in a Python environment of its own: tests/hosts/run.sh hermes [pytest options]
# The environment lives in .venvs/<host> and is built again when what it is made from changes.
set -euo pipefail
cd "$(dirname "$0")/../.."
host=${1:?which host?}
shift
folder=tests/hosts/$host
venv=.venvs/$host
oldest=$(cat "$folder/python-version")

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 ~/.pyenv/versions/3.*/bin/python; do
        if "$candidate" -c "import sys; sys.exit(sys.version_info < (${oldest/./, }))" 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "$host needs Python $oldest or newer, and none was found" >&2
    return 1
}

made_from=$(cat pyproject.toml "$folder/requirements.txt" "$folder/python-version" | sha256sum | cut -d' ' -f1)
if [[ "$(cat "$venv/.made-from" 2>/dev/null)" != "$made_from" ]]; then
    python=$(find_python)
    echo "Setting up $venv with $("$python" --version) …"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip --disable-pip-version-check --quiet install \
        --requirement "$folder/requirements.txt" --editable .
    echo "$made_from" > "$venv/.made-from"
fi

TEST_HOST=$host exec "$venv/bin/python" -m pytest "$folder/real" --confcutdir "$folder/real" -p no:cacheprovider -W default "$@"
