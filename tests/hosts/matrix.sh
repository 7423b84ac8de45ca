#!/usr/bin/env bash
# Runs hosts' real tests with the oldest supported and the newest versions on each Python:
#   tests/hosts/matrix.sh [host …]        all hosts that have a floor.txt when none is named
# PYTHONS="3.12 3.13" leaves others out. Prints one line per combination and fails if one of them failed; a
# Python that is not installed is skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."
mkdir -p .venvs
hosts=("$@")
[[ ${#hosts[@]} -gt 0 ]] || for file in tests/hosts/*/floor.txt; do hosts+=("$(basename "$(dirname "$file")")"); done

# uv makes two dozen environments in the time in which pip makes two.
if [[ -z "${UV:-}" ]] && { [[ -x .venvs/uv/bin/uv ]] ||
    { python3 -m venv .venvs/uv && .venvs/uv/bin/python -m pip --quiet install uv; }; }; then
    UV=$PWD/.venvs/uv/bin/uv
fi
export UV

failed=0
for host in "${hosts[@]}"; do
    for version in ${PYTHONS:-3.11 3.12 3.13}; do
        for pins in floor newest; do
            log=.venvs/$host-$version-$pins.log
            HOST_PYTHON=$version HOST_PINS=$pins tests/hosts/run.sh "$host" -q > "$log" 2>&1
            case $? in
                0) verdict=$(grep -E '[0-9]+ passed' "$log" | tail -1) ;;
                69) verdict="skipped: $(tail -1 "$log")" ;;
                *) verdict="FAILED, see $log" failed=1 ;;
            esac
            printf '%-14s Python %s %-7s %s\n' "$host" "$version" "$pins" "$verdict"
        done
    done
done
exit $failed
