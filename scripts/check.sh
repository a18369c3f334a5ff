#!/bin/sh
# Checks format, lint, types, structure and references without changing files. Runs every check even if one fails.
here=$(CDPATH= cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd)
cd "$here" || exit 1
failed=
step() {
  name=$1
  shift
  if "$@"; then echo "check: $name is fine"; else
    echo "check: $name FAILED" >&2
    failed="$failed $name"
  fi
}

step 'format and lint' scripts/node node_modules/@biomejs/biome/bin/biome check --error-on-warnings .
step types node_modules/.bin/tsc -p .
step structure scripts/node scripts/check/main.ts
step references scripts/node scripts/check/references.ts


if [ -n "$failed" ]; then exit 1; fi
