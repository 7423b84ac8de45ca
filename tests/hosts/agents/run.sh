#!/usr/bin/env bash
# Drives the real coding agents against one fake model server: tests/hosts/agents/run.sh [pytest options | install]
# Their npm packages, in the versions of packages.txt, are kept in .venvs/agents/; nothing is left out that cannot run.
set -euo pipefail
cd "$(dirname "$0")/../../.."
folder=tests/hosts/agents
kept=$PWD/.venvs/agents
oldest=20
mkdir -p "$kept"

node_is_new() { node -e "process.exit(parseInt(process.versions.node) < $oldest ? 1 : 0)" 2>/dev/null; }

if ! command -v npm >/dev/null; then
    echo "npm is needed; on Debian: apt-get install nodejs npm" >&2
    exit 69
fi
# OpenClaw needs a newer Node than the others; its test finds this one.
newest=$kept/node/node_modules/node/bin
[[ -x $newest/node ]] || npm install --loglevel error --no-audit --no-fund --prefix "$kept/node" node@24 >&2
if ! node_is_new; then
    export PATH=$newest:$PATH
    node_is_new || { echo "Node $oldest or newer is needed" >&2; exit 69; }
fi

while read -r name package; do
    place=$kept/$name
    [[ "$(cat "$place/.made-from" 2>/dev/null)" == "$package" ]] && continue
    echo "Installing $package …"
    rm -rf "$place"
    needs=$PATH
    [[ $name == openclaw ]] && needs=$newest:$PATH
    PATH=$needs npm install --loglevel error --no-audit --no-fund --prefix "$place" "$package" >&2
    # npm may hold back the script with which Claude Code puts its program in place.
    if [[ $name == claude-code ]]; then
        (cd "$place/node_modules/@anthropic-ai/claude-code" && node install.cjs >&2)
    fi
    # opencode would install this into the home of every test.
    if [[ $name == opencode ]]; then
        npm install --loglevel error --no-audit --no-fund --save-exact --prefix "$place/warm" \
            "@opencode-ai/plugin@${package##*@}" >&2
    fi
    echo "$package" > "$place/.made-from"
done < "$folder/packages.txt"

[[ "${1:-}" != install ]] || exit 0

LCM_TEST_AGENTS=$kept TEST_HOST=agents exec .venv/bin/python -m pytest "$folder/real" --confcutdir "$folder/real" \
    -p no:cacheprovider "$@"
