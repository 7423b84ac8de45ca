#!/usr/bin/env bash
# Runs one host's real tests in a Python environment of its own: tests/hosts/run.sh hermes [pytest options]
# The environment lives in .venvs/<host> and is built again when what it is made from changes.
# HOST_PYTHON=3.12 asks for that Python, HOST_PINS=floor for the oldest supported versions (floor.txt),
# UV=<path> for an installation by uv; tests/hosts/matrix.sh goes through them all.
set -euo pipefail
cd "$(dirname "$0")/../.."
host=${1:?which host?}
shift
folder=tests/hosts/$host
pins=${HOST_PINS:-newest}
wanted=${HOST_PYTHON:-}
venv=.venvs/$host${wanted:+-$wanted}
[[ $pins == newest ]] || venv+=-$pins
oldest=$(cat "$folder/python-version")
made_of=(pyproject.toml "$folder/requirements.txt" "$folder/python-version")
constraints=()
if [[ $pins != newest ]]; then
    made_of+=("$folder/$pins.txt")
    constraints=(--constraint "$folder/$pins.txt")
fi

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 ~/.pyenv/versions/3.*/bin/python; do
        if "$candidate" -c "import sys; at = '%d.%d' % sys.version_info[:2]; sys.exit(
                sys.version_info < (${oldest/./, }) or '$wanted' not in ('', at))" 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    if [[ -z "$wanted" ]] && candidate=$(fetch_python); then
        echo "$candidate"
        return
    fi
    echo "$host needs Python ${wanted:-$oldest or newer}, and none was found; PYTHON=/path/to/python names one" >&2
    return 69
}

# Debian 12 comes with Python 3.11 only. uv, a package like any other, brings a newer one where it may download it.
fetch_python() {
    local uv=.venvs/uv/bin/uv
    echo "No Python $oldest or newer here; asking uv for one …" >&2
    [[ -x $uv ]] || { python3 -m venv .venvs/uv && .venvs/uv/bin/python -m pip --quiet install uv >&2; } || return
    "$uv" python install "$oldest" >&2 && "$uv" python find --managed-python "$oldest"
}

install() {
    if [[ -n "${UV:-}" ]]; then
        "$UV" pip install --quiet --python "$venv/bin/python" "$@"
    else
        "$venv/bin/python" -m pip --disable-pip-version-check --quiet install "$@"
    fi
}

made_from=$(cat "${made_of[@]}" | sha256sum | cut -d' ' -f1)
if [[ "$(cat "$venv/.made-from" 2>/dev/null)" != "$made_from" ]]; then
    python=$(find_python)
    echo "Setting up $venv with $("$python" --version) …"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    install --requirement "$folder/requirements.txt" "${constraints[@]}" --editable .
    echo "$made_from" > "$venv/.made-from"
fi

TEST_HOST=$host exec "$venv/bin/python" -m pytest "$folder/real" --confcutdir "$folder/real" -p no:cacheprovider -W default "$@"
