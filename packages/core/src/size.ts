/**
 * Parses a size such as `1048576`, `512M` or `2GiB` (powers of 1024) into bytes; undefined when it
 * is invalid.
 */
export function parseSize(text: string): number | undefined {
  const match = /^(\d{1,15})([KMGT]?)(?:i?B)?$/i.exec(text);
  return match
    ? Number(match[1]) * 1024 ** ["", "K", "M", "G", "T"].indexOf(match[2]!.toUpperCase())
    : undefined;
}
