const month = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)";

/**
 * Text that differs between runs of the same work: times, durations, ids, process numbers, names of
 * temporary files, and commit hashes, which depend on times.
 */
const volatilePatterns: readonly [RegExp, string][] = [
  [/\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi, "<id>"],
  [/\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?/g, "<time>"],
  // Formats with a weekday: `date`, `git log` and HTTP's Date.
  [
    new RegExp(
      String.raw`\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +(?:${month} +\d{1,2}|\d{1,2} +${month})(?: +\d{4})?` +
        String.raw` +\d\d:\d\d(?::\d\d)?(?: [AP]M)?(?: +[A-Z]{3,5})?(?: +\d{4})?(?: +[+-]\d{4})?\b`,
      "g",
    ),
    "<time>",
  ],
  [new RegExp(String.raw`\b${month} +\d{1,2}(?:,? +\d{4}|,? +\d\d:\d\d(?::\d\d)?){1,2}`, "g"), "<time>"],
  [/\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b/g, "<time>"],
  [/\b\d+m\d+(?:\.\d+)?s\b/g, "<duration>"],
  [/\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms|s|secs?|seconds?)\b/g, "<duration>"],
  [/\bsandpiper_[0-9a-f]{40}\b/g, "<placeholder of a secret>"],
  [/\bterminal_output_[0-9a-f]{8}\b/g, "terminal_output_<id>"],
  [/\/tmp\/(?:tmp[\w.-]+|[\w-]+[.-][A-Za-z0-9_]{6,})/g, "/tmp/<temporary>"],
  // Properties of the machine.
  [/<SANDBOX>[^<]{0,4000}<\/SANDBOX>/g, "<sandbox>"],
  [/^\[Python interpreter: .*\]$\n?/gm, ""],
  [/\bpid[ =:]+\d+/gi, "pid <number>"],
  [/^\[(\d+)\] +\d+$/gm, "[$1] <number>"],
  [/\b[0-9a-f]{40}\b/g, "<commit>"],
  [/\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,12}\b/g, "<commit>"],
];

/** Longer texts are compared as they are. */
const maxLength = 2 * 1024 * 1024;

/**
 * Returns a function that normalises texts. `names` maps words with the same meaning on both sides,
 * such as sandbox ids.
 */
export function createNormaliser(names: Readonly<Record<string, string>>): (text: string) => string {
  const own = Object.entries(names).filter(([name]) => name !== "");
  return (text) => {
    if (text.length > maxLength) return text;
    let result = text;
    for (const [name, stands] of own) result = result.replaceAll(name, stands);
    for (const [pattern, stands] of volatilePatterns) result = result.replace(pattern, stands);
    return result;
  };
}

/** Excerpts around the first difference of two texts. */
export function firstDifference(left: string, right: string): { left: string; right: string } {
  let at = 0;
  while (at < left.length && left[at] === right[at]) at++;
  const excerpt = (text: string) => {
    const from = Math.max(0, at - 40);
    const to = Math.min(text.length, at + 120);
    return `${from > 0 ? "…" : ""}${text.slice(from, to)}${to < text.length ? "…" : ""}`;
  };
  return { left: excerpt(left), right: excerpt(right) };
}
