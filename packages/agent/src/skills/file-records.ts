/** Shell function `emit KIND-IN-$kind`: writes the files that a `find` with these arguments finds, `kind size path NUL content` each. */
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

/** A file that a script has found: the word that stood in `$kind`, and what was read of the file. */
export interface FoundFile {
  kind: string;
  path: string;
  content: string;
}

/** Reads what `emit` writes; ends where the output was cut or does not fit. */
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
    found.push({ kind, path, content: output.toString("utf8", end + 1, at) });
  }
  return found;
}
