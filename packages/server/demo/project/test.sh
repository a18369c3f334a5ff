#!/bin/sh
# Tests of the duration library. Prints a line for every case and exits with 1 if one failed.
cd "$(dirname "$0")" || exit 1
. ./lib/duration.sh
. ./lib/text.sh

failed=0

check() { # check <function> <argument> <expected>
  actual=$("$1" "$2" 2>/dev/null) || actual=error
  if [ "$actual" = "$3" ]; then
    echo "ok   $1 $2"
  else
    echo "FAIL $1 $2: expected $3, got $actual"
    failed=$((failed + 1))
  fi
}

check to_seconds 45s 45
check to_seconds 2m 120
check to_seconds 1h 3600
check to_seconds 1h30m 5400
check to_seconds 1d 86400
check to_seconds 5x error
check to_seconds "" error
check to_text 0 0s
check to_text 59 59s
check to_text 5400 1h30m

if [ "$failed" -gt 0 ]; then
  echo "$failed failed"
  exit 1
fi
echo "all passed"
