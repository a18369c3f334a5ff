/** Shell function: writes `$kind size path NUL content` for each file of `find "$@"`. */
export const emitFunction = `
emit() {
  find "$@" -exec sh -c 'kind=$1; shift
    for file; do
      [ -f "$file" ] || continue
      size=$(head -c "$LIMIT" <"$file" | wc -c) || continue
      printf "%s %s %s\\\\0" "$kind" $size "$file"
      head -c $size <"$file"
    done' sh "$kind" {} + 2>/dev/null
}`;

/** A found file: its `$kind`, and the content that was read. */
export interface FoundFile {
  kind: string;
  path: string;
  content: string;
  bytes: Buffer;
}

/** Parses the output of `emit` up to the first incomplete record. */
export function readRecords(output: Buffer): FoundFile[] {
  const found: FoundFile[] = [];
  let at = 0;
  while (at < output.length) {
    const end = output.indexOf(0, at);
    const [, kind, size, path] =
      /^([a-z]+) (\d{1,7}) ([\s\S]+)$/.exec(end < 0 ? "" : output.toString("utf8", at, end)) ?? [];
    if (kind === undefined || size === undefined || path === undefined) break;
    at = end + 1 + Number(size);
    if (at > output.length) break;
    const bytes = output.subarray(end + 1, at);
    found.push({ kind, path, content: bytes.toString("utf8"), bytes });
  }
  return found;
}
