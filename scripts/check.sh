#!/bin/sh
# Formatter, linter (with the import directions of biome.json), types, references and file lengths; changes nothing. Every part runs.
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

step 'format, lint and import directions' scripts/node node_modules/@biomejs/biome/bin/biome check --error-on-warnings .
step types node_modules/.bin/tsc -p .
step references scripts/node scripts/check/references.ts

# A file past 400 lines probably holds two things: a warning, not a failure.
find packages bench scripts -name node_modules -prune -o -type f \( -name '*.ts' -o -name '*.sh' \) -exec wc -l {} + |
  awk '$2 != "total" && $1 > 400 { print "check: warning: " $2 " has " $1 " lines, more than 400" }'

if [ -n "$failed" ]; then exit 1; fi
