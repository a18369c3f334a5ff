# Writes seconds in the largest units that fit. Source lib/duration.sh first.

# to_text 5400 prints 1h30m; to_text 0 prints 0s.
to_text() {
  left=$1
  text=
  for unit in d h m s; do
    size=$(unit_seconds "$unit")
    number=$((left / size))
    left=$((left % size))
    [ "$number" -eq 0 ] || text="$text$number$unit"
  done
  echo "${text:-0s}"
}
