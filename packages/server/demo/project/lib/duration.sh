# Reads and writes durations such as 1h30m. Source this file.

# Seconds of one unit: d, h, m or s. Fails for anything else.
unit_seconds() {
  case $1 in
    d) echo 86400 ;;
    h) echo 3600 ;;
    m) echo 60 ;;
    s) echo 1 ;;
    *) return 1 ;;
  esac
}

# to_seconds 1h30m prints 5400. Fails for what is not a duration.
to_seconds() {
  rest=$1
  total=0
  [ -n "$rest" ] || return 1
  while [ -n "$rest" ]; do
    number=${rest%%[!0-9]*}
    rest=${rest#"$number"}
    unit=${rest%"${rest#?}"}
    rest=${rest#?}
    [ -n "$number" ] || return 1
    size=$(unit_seconds "$unit") || return 1
    total=$((total + number / size))
  done
  echo "$total"
}
