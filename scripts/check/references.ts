import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { root } from "./source-files.ts";

const blank = (text: string) => text.replace(/[^\n]/g, " ");
const withoutFences = (text: string) => text.replace(/^( *)(```+|~~~+)[\s\S]*?\n\1\2 *$/gm, blank);

/** The headings of a Markdown page, without their marks. */
const headings = (page: string) =>
  [...withoutFences(page).matchAll(/^#{1,6} +(.+?) *$/gm)].map(([, heading]) => heading!);

/** The anchors of a Markdown page, made the way GitHub makes them. */
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

/** Finds references that do not resolve in the repository below one folder. */
class ReferenceCheck {
  readonly problems: string[] = [];
  readonly #base: string;

  constructor(base: string) {
    this.#base = base;
  }

  /** Citations in a source file: sections of `docs/contract`, and pages of `docs`. */
  checkSource(file: string): void {
    const text = this.#read(file);
    // A citation may wrap in the middle; the replacement keeps every offset.
    const joined = text.replace(/\n[ \t]*(\*|\/\/|#)?[ \t]*/g, (wrap) => " ".repeat(wrap.length));
    const sections = /\b([a-z0-9.-]+\.md) +sections? +(\d[\d.]*(?:(?:,| and| to) +\d[\d.]*)*)/g;
    for (const { 1: page, 2: cited, index } of joined.matchAll(sections)) {
      const path = `docs/contract/${page}`;
      if (!this.#exists(path)) this.#report(file, index, `there is no ${path}`);
      else
        for (const [section] of cited!.matchAll(/\d+(\.\d+)*/g))
          if (!this.#hasSection(path, section))
            this.#report(file, index, `${path} has no section ${section}`);
    }
    if (file.endsWith(".test.ts")) return;
    const pages =
      /(?<![\w./-])(docs\/[a-z0-9/.-]+\.md|(?:ARCHITECTURE|CONTRIBUTING|README)\.md)(?:#([\w-]+))?/g;
    for (const { 1: page, 2: anchor, index } of joined.matchAll(pages))
      this.#checkTarget(file, index, page!, anchor);
  }

  /** Relative links with anchors of a Markdown page, and repository paths in backticks. */
  checkPage(file: string): void {
    const prose = withoutFences(this.#read(file));
    for (const { 1: link, index } of prose.replace(/`[^`\n]*`/g, blank).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link!)) continue;
      const [path, anchor] = link!.split("#");
      this.#checkTarget(file, index, path === "" ? file : join(dirname(file), path!), anchor);
    }
    if (file.startsWith("docs/contract/")) return;
    const inPackage = /^packages\/[^/]+\/README\.md$/.test(file);
    const paths = inPackage
      ? /`((?:src|test)\/[\w./-]+)`/g
      : /`((?:packages|scripts|bench|docs|bin)\/[\w./-]+)`/g;
    for (const { 1: path, index } of prose.matchAll(paths))
      if (!path!.startsWith("bench/results/"))
        this.#checkTarget(file, index, join(inPackage ? dirname(file) : "", path!), undefined);
  }

  #checkTarget(file: string, index: number, target: string, anchor: string | undefined): void {
    if (!this.#exists(target)) this.#report(file, index, `there is no ${target}`);
    else if (anchor && !anchors(this.#read(target)).has(anchor))
      this.#report(file, index, `${target} has no #${anchor}`);
  }

  #hasSection(path: string, section: string): boolean {
    return headings(this.#read(path)).some((heading) => /^(\d+(\.\d+)*)\.? /.exec(heading)?.[1] === section);
  }

  #report(file: string, index: number, problem: string): void {
    const line = this.#read(file).slice(0, index).split("\n").length;
    this.problems.push(`${file}:${line}: ${problem}`);
  }

  #exists(path: string): boolean {
    return existsSync(join(this.#base, path));
  }

  #read(path: string): string {
    return readFileSync(join(this.#base, path), "utf8");
  }
}

const isSource = (path: string) => /^(packages|scripts|bench|bin)\/.*(\.ts|\.sh|\/[a-z]+)$/.test(path);
const isSkipped = (path: string) => /(^|\/)(node_modules|fixtures|demo)\//.test(path);

/** References in sources and Markdown pages that do not resolve: one `file:line: problem` each. */
export function referenceProblems(base = root): string[] {
  const folders = ["packages", "scripts", "bench", "bin", "docs"].filter((name) =>
    existsSync(join(base, name)),
  );
  const paths = folders.flatMap((folder) =>
    readdirSync(join(base, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(base.length)),
  );
  const check = new ReferenceCheck(base);
  for (const path of [...paths, ...readdirSync(base)].filter((path) => !isSkipped(path)).sort()) {
    if (path.endsWith(".md")) check.checkPage(path);
    else if (isSource(path)) check.checkSource(path);
  }
  return check.problems;
}

if (import.meta.main) {
  const problems = referenceProblems();
  for (const problem of problems) console.error(problem);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
