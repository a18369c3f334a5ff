import { mkdirSync, readdirSync, renameSync, rmSync, statSync, symlinkSync, utimesSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { type Plugin, rolldown } from "rolldown";

/**
 * Bundles the server's sources and packages for a fast start: two thousand modules become some
 * files. Each build has a folder of its own, to which the link `current` leads when it is complete.
 * `scripts/server-main` calls it when a source is newer than the bundle.
 */

const root = fileURLToPath(new URL("../", import.meta.url));
const builds = join(root, ".cache/bundle");
const folder = join(builds, `${Date.now()}-${process.pid}`);
mkdirSync(folder, { recursive: true });
/** By the clock of the filesystem, which also dates the sources. */
const started = statSync(folder).mtime;

/** A process marks its build as used every six hours (`keepBundle`); others are removed, ms. */
const maxAgeMs = 24 * 3_600_000;

/** Threads are files of their own. */
const threads = {
  "json-reader": "packages/server/src/http/server/json-reader.ts",
  "launcher-thread": "packages/sandbox/src/drivers/oci/launch/launcher-thread.ts",
  "socket-thread": "packages/sandbox/src/drivers/common/sockets/socket-thread.ts",
  writer: "packages/server/src/store/sqlite/writer.ts",
};

/** Packages that load files of their own folder, by native code or by path. */
const external = ["koffi", "@lydell/node-pty", "dockerode", "@fastify/swagger", "@fastify/swagger-ui"];

/** URLs of a module's neighbours lead to a bundled thread or to the file among the sources. */
const neighbours: Plugin = {
  name: "neighbours",
  transform: {
    filter: { code: /new URL\("[^"]+", import\.meta\.url\)/ },
    handler(code, id) {
      if (id.includes("/node_modules/")) return null;
      return code.replaceAll(/new URL\("([^"]+)", import\.meta\.url\)/g, (_url, path: string) => {
        const file = join(dirname(id), path);
        const thread = Object.entries(threads).find(([, source]) => file.endsWith(`/${source}`))?.[0];
        const target = thread ? `./${thread}.js` : relative(folder, file) + (path.endsWith("/") ? "/" : "");
        return `new URL(${JSON.stringify(target)}, import.meta.url)`;
      });
    },
  },
};

/**
 * V8 keeps a source with one character outside of Latin-1 in twice its size, so such characters
 * become escapes. Raw templates of the sources contain none.
 */
const ascii: Plugin = {
  name: "ascii",
  generateBundle(_options, files) {
    for (const file of Object.values(files))
      if (file.type === "chunk") file.code = file.code.replace(/[^\x00-\x7f]/g, escapeUnit);
  },
};

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

const bundle = await rolldown({
  cwd: root,
  input: { main: "packages/server/src/main.ts", ...threads },
  platform: "node",
  external,
  plugins: [neighbours, ascii],
  // Replaced URLs stay in their line.
  onLog: (level, log, handle) => log.code === "SOURCEMAP_BROKEN" || handle(level, log),
});
await bundle.write({
  dir: folder,
  format: "esm",
  sourcemap: true,
  entryFileNames: "[name].js",
  // Names stay, for stacks and profiles.
  minify: { compress: false, mangle: false },
});
await bundle.close();

// A source that changed meanwhile is newer than this build.
utimesSync(join(folder, "main.js"), started, started);
const link = `${folder}.link`;
symlinkSync(relative(builds, folder), link);
renameSync(link, join(builds, "current"));

for (const name of readdirSync(builds)) {
  const build = join(builds, name);
  if (name !== "current" && build !== folder && Date.now() - statSync(build).mtimeMs > maxAgeMs)
    rmSync(build, { recursive: true, force: true });
}
