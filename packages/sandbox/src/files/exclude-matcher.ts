import { globMatcher } from "@sandpiper/core/glob";
import { trimTail } from "@sandpiper/core/trim";

/** A test for relative paths: whether a pattern matches the path or a folder above it. */
export function excludeMatcher(patterns: readonly string[]): (path: string, isDirectory: boolean) => boolean {
  const matchers = patterns.flatMap((pattern) => {
    const text = trimTail(pattern, "/");
    const ofFolder = text !== pattern;
    return text === "" ? [] : [{ matches: globMatcher(text, { extended: true }), ofFolder }];
  });
  return (path, isDirectory) => {
    for (let end = path.indexOf("/"); ; end = path.indexOf("/", end + 1)) {
      const part = end < 0 ? path : path.slice(0, end);
      const isFolder = end >= 0 || isDirectory;
      if (matchers.some(({ matches, ofFolder }) => (isFolder || !ofFolder) && matches(part))) return true;
      if (end < 0) return false;
    }
  };
}
