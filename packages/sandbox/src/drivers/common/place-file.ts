import type { SandboxFile, SandboxUser } from "../../driver.ts";

/** Where a file goes, and the folders of the user's home on the way, outermost first. */
export function placeFile({ path }: SandboxFile, { home }: SandboxUser): { path: string; folders: string[] } {
  if (!path.startsWith("~/")) return { path, folders: [] };
  const names = path.split("/").slice(1, -1);
  const base = home === "/" ? "" : home;
  const folders = names.map((_, index) => [base, ...names.slice(0, index + 1)].join("/"));
  return { path: base + path.slice(1), folders };
}
