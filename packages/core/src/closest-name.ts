/** Names that differ in more characters are not meant. */
const maxDistance = 3;

/** Longer names are not compared, characters. */
const maxLength = 100;

/** The known name that a misspelt one probably means, if any. */
export function findClosestName(name: string, known: readonly string[]): string | undefined {
  if (name.length > maxLength) return undefined;
  const [closest] = known
    .filter((other) => Math.abs(other.length - name.length) <= maxDistance)
    .map((other) => ({ other, distance: editDistance(name, other) }))
    .sort((a, b) => a.distance - b.distance);
  if (closest && closest.distance <= maxDistance) return closest.other;
  // An abbreviation, or a name with words too many.
  return known.find((other) => other.startsWith(name) || (other.length >= 8 && name.startsWith(other)));
}

/** Levenshtein distance of two short texts. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length]!;
}
