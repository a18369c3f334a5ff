import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Checks that references resolve and prints each one that does not: sections of `docs/contract` and pages of `docs`
 * that the sources cite, and in Markdown the relative links, their anchors, and paths of the project in backticks.
 */
const root = new URL("../..", import.meta.url).pathname;
const read = (file: string) => readFileSync(join(root, file), "utf8");
const files = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], { cwd: root, encoding: "utf8" })
  .split("\n")
  .filter((file) => existsSync(join(root, file)) && !/\/(fixtures|demo)\//.test(file));

const problems: string[] = [];
function report(file: string, text: string, at: number, problem: string): void {
  problems.push(`${file}:${text.slice(0, at).split("\n").length}: ${problem}`);
}

const blank = (text: string) => text.replace(/[^\n]/g, " ");
const withoutFences = (text: string) => text.replace(/^( *)(```+|~~~+)[\s\S]*?\n\1\2 *$/gm, blank);

/** The lines of a page that are headings, without their marks. */
const headings = (page: string) =>
  [...withoutFences(page).matchAll(/^#{1,6} +(.+?) *$/gm)].map(([, heading]) => heading!);

/** The anchors of a page, made the way GitHub makes them. */
function anchors(page: string): Set<string> {
  const found = new Set<string>();
  for (const heading of headings(page)) {
    const text = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
    const slug = text.replace(/[^\p{L}\p{N}\p{Pc} -]/gu, "").replaceAll(" ", "-");
    let anchor = slug;
    for (let copy = 1; found.has(anchor); copy++) anchor = `${slug}-${copy}`;
    found.add(anchor);
  }
  return found;
}

const contract = new Map(
  files
    .filter((file) => /^docs\/contract\/[^/]+\.md$/.test(file))
    .map((file) => [
      file.slice("docs/contract/".length),
      new Set(headings(read(file)).map((heading) => /^(\d+(\.\d+)*)\.? /.exec(heading)?.[1])),
    ]),
);

for (const file of files.filter((name) =>
  /^(packages|scripts|bench|bin)\/.*(\.ts|\.sh|\/[a-z]+)$/.test(name),
)) {
  const text = read(file);
  // A citation may wrap in the middle; the replacement keeps every offset.
  const joined = text.replace(/\n[ \t]*(\*|\/\/|#)?[ \t]*/g, (wrap) => " ".repeat(wrap.length));
  for (const match of joined.matchAll(
    /\b([a-z0-9.-]+\.md) +sections? +(\d[\d.]*(?:(?:,| and| to) +\d[\d.]*)*)/g,
  )) {
    const [, page, cited] = match;
    const sections = contract.get(page!);
    if (sections === undefined) report(file, text, match.index, `docs/contract has no ${page}`);
    for (const [section] of cited!.matchAll(/\d+(\.\d+)*/g))
      if (sections !== undefined && !sections.has(section))
        report(file, text, match.index, `${page} has no section ${section}`);
  }
  if (file.endsWith(".test.ts")) continue;
  for (const match of joined.matchAll(
    /(?<![\w./-])(docs\/[a-z0-9/.-]+\.md|(?:ARCHITECTURE|CONTRIBUTING|README)\.md)(#[\w-]+)?/g,
  )) {
    const [, page, anchor] = match;
    if (!existsSync(join(root, page!))) report(file, text, match.index, `there is no ${page}`);
    else if (anchor && !anchors(read(page!)).has(anchor.slice(1)))
      report(file, text, match.index, `${page} has no ${anchor}`);
  }
}

for (const file of files.filter((name) => name.endsWith(".md"))) {
  const text = read(file);
  const prose = withoutFences(text);
  for (const match of prose.replace(/`[^`\n]*`/g, blank).matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^[a-z]+:/.test(match[1]!)) continue;
    const [path, anchor] = match[1]!.split("#");
    const target = path === "" ? file : join(dirname(file), path!);
    if (!existsSync(join(root, target))) report(file, text, match.index, `there is no ${target}`);
    else if (anchor && !anchors(read(target)).has(anchor))
      report(file, text, match.index, `${target} has no #${anchor}`);
  }
  if (file.startsWith("docs/contract/")) continue;
  const inPackage = /^packages\/[^/]+\/README\.md$/.test(file) ? dirname(file) : "";
  const paths = inPackage
    ? /`((?:src|test)\/[\w./-]+)`/g
    : /`((?:packages|scripts|bench|docs|bin)\/[\w./-]+)`/g;
  for (const match of prose.matchAll(paths)) {
    const target = join(inPackage, match[1]!);
    if (!target.startsWith("bench/results/") && !existsSync(join(root, target)))
      report(file, text, match.index, `there is no ${target}`);
  }
}

for (const problem of problems) console.log(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
