import { join } from "node:path";
import { listEntries, readText } from "./files.ts";

/** URLs of this machine's apt repositories; `etc` is apt's configuration folder. */
export function findAptAddresses(etc = "/etc/apt"): string[] {
  const files = [join(etc, "sources.list"), ...listEntries(join(etc, "sources.list.d"))];
  return files.flatMap((file) => {
    if (file.endsWith(".list")) return parseLines(readText(file));
    return file.endsWith(".sources") ? parseStanzas(readText(file)) : [];
  });
}

/** `deb [options] https://… suite component`. */
function parseLines(text: string): string[] {
  return text
    .split("\n")
    .flatMap((line) => /^\s*deb(?:-src)?\s+(?:\[[^\]]*\]\s+)?(\S+)/.exec(line)?.[1] ?? []);
}

/** `URIs: https://… https://…` in stanzas separated by empty lines. */
function parseStanzas(text: string): string[] {
  const withoutComments = text.split("\n").filter((line) => !line.startsWith("#"));
  return withoutComments
    .join("\n")
    .split(/\n\s*\n/)
    .filter((stanza) => !/^Enabled:\s*(no|false|0)\s*$/im.test(stanza))
    .flatMap((stanza) => /^URIs:((?:.*)(?:\n[ \t].*)*)/im.exec(stanza)?.[1]?.trim().split(/\s+/) ?? []);
}
