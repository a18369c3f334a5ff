import { posix } from "node:path";
import { globMatcher } from "@sandpiper/core/glob";
import type { Action } from "@sandpiper/wire";
import { type TextContent, textContent } from "@sandpiper/wire";
import type { Skill } from "./skill.ts";

/** Rules per result. */
const maxRules = 5;

/** Absolute paths of the files that an action touches. */
export function touchedPaths(action: Action, workingDir: string): string[] {
  const { kind } = action;
  const isFileAction = kind === "FileEditorAction" || kind === "PlanningFileEditorAction";
  const named =
    "patch" in action
      ? patchedPaths(action.patch)
      : isFileAction
        ? [action.path]
        : "file_path" in action
          ? [action.file_path]
          : [];
  return named.map((path) => posix.resolve(workingDir, path));
}

/** Texts of the matching rules that are new (agent-behaviour.md section 8). */
export function rulesFor(
  action: Action,
  {
    skills,
    workingDir,
    known: activeNames,
  }: { skills: readonly Skill[]; workingDir: string; known: ReadonlySet<string> },
): TextContent[] {
  const paths = touchedPaths(action, workingDir);
  const found = new Map<string, TextContent>();
  for (const skill of paths.length > 0 ? skills : []) {
    if (found.size === maxRules) break;
    const name = attribute(skill.name);
    if (!skill.paths || activeNames.has(name) || found.has(name)) continue;
    const path = paths.find((one) => applies(skill, one, workingDir));
    if (path !== undefined) found.set(name, textContent(ruleText(skill, path)));
  }
  return [...found.values()];
}

/** Name of the rule with this text; undefined for other texts. */
export function getRuleName(text: string): string | undefined {
  return /^<PATH_RULE name="([^"]*)"/.exec(text.slice(0, 1_000))?.[1];
}

/** Matches a path as gitignore does: a trailing slash matches everything below. */
export function matchesGlob(pattern: string, path: string): boolean {
  return globMatcher(pattern.replace(/^\.\//, "").replace(/\/$/, "/**"))(path);
}

function applies({ paths }: Skill, path: string, workingDir: string): boolean {
  const { base = workingDir, globs } = paths!;
  const relative = posix.relative(base, path);
  return (
    relative !== "" && !/^\.\.(\/|$)/.test(relative) && globs.some((glob) => matchesGlob(glob, relative))
  );
}

function ruleText(skill: Skill, path: string): string {
  return `<PATH_RULE name="${attribute(skill.name)}" path="${attribute(path)}">\nRules of the project for this file. Follow them where they fit the user's task.\n\n${skill.content}\n</PATH_RULE>`;
}

function attribute(text: string): string {
  return text.replace(/\s+/g, " ").replaceAll('"', "'").slice(0, 400);
}

function patchedPaths(patch: string): string[] {
  const lines = patch.slice(0, 1_000_000).matchAll(/^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$/gm);
  return [...lines].slice(0, 1_000).map(([, path]) => path!.trim());
}
