import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";

export const root = join(import.meta.dirname, "../..");

/** Where the namespace of a page has its folder: paths have the same length on every machine. */
export const place = "/mnt";
export const home = `${place}/ann1`;

/**
 * Makes the home and working folder of a page or picture in an empty folder, and starts the network
 * of its namespace. Returns the environment of its programs; `python` is a folder of their `PATH`.
 */
export function prepareFolder(folder: string, python = ""): NodeJS.ProcessEnv {
  const work = join(home, "sandpiper");
  execFileSync("mount", ["--bind", folder, place]);
  execFileSync("ip", ["link", "set", "lo", "up"]);
  for (const name of ["blocks", "bin", "data", "ann1/sandpiper", "ann1/.local/bin", "ann1/.local/share"])
    mkdirSync(join(place, name), { recursive: true });
  for (const name of ["bin", "scripts", "docs", "packages", "package.json", "node_modules"])
    symlinkSync(join(root, name), join(work, name));
  symlinkSync(join(root, "node_modules"), join(place, "node_modules"));
  symlinkSync(join(root, "bin/sandpiper"), join(place, "bin/sandpiper"));
  symlinkSync(join(place, "data"), join(home, ".local/share/sandpiper"));
  // A block whose request is refused fails.
  writeFileSync(join(home, ".curlrc"), "fail-with-body\n");
  writeFileSync(
    join(home, ".gitconfig"),
    "[user]\nname = Ann\nemail = ann@example.com\n[init]\ndefaultBranch = main\n",
  );
  return {
    HOME: home,
    LANG: "C.UTF-8",
    TZ: "UTC",
    PATH: [python, join(place, "bin"), join(home, ".local/bin"), process.env.PATH]
      .filter(Boolean)
      .join(delimiter),
    DOCS_ROOT: root,
    // Control groups are named after the data folder, so its path is the page's own.
    SANDPIPER_DATA: join(folder, "data"),
    SANDPIPER_LOG_LEVEL: "error",
    SANDPIPER_SKIP_SYSTEM_PACKAGES: "1",
  };
}

/** A text of a program as the pages show it. */
export function showPaths(text: string, folder: string): string {
  const shownHome = "/home/ann";
  return text
    .replaceAll(join(folder, "data"), `${shownHome}/.local/share/sandpiper`)
    .replaceAll(home, shownHome);
}
