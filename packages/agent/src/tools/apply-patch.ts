import { posix } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { readFile } from "@sandpiper/sandbox/files/files";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { ApplyPatchAction, ApplyPatchObservation, PatchedFile } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { Type } from "typebox";
import { judgePatch } from "../risk/edit-rules.ts";
import { touchedPaths } from "../skills/path-rules.ts";
import { applyHunks } from "./apply-patch/apply.ts";
import { type FileChange, PatchError, parsePatch } from "./apply-patch/parse.ts";
import { type Write, writeAll } from "./apply-patch/write-all.ts";
import { toolDefinition } from "./definition.ts";
import { decodeText, encodeText, newFormat, type TextFormat } from "./file-editor/text-file.ts";
import { UseError } from "./file-editor/use-error.ts";
import type { Tool, ToolContext } from "./tool.ts";

const description = `Changes files of the working folder by a patch. All of it is applied, or nothing.

*** Begin Patch
*** Update File: src/main.py
*** Move to: src/app.py
@@ class Main
@@ def run(self):
 a line that stays
-a line that goes
+a line that comes
*** Add File: notes.md
+each line of a new file
*** Delete File: old.py
*** End Patch

- Paths are relative to the working folder. "Move to" and the lines with @@ are optional; @@ names a line above the change that tells it from others.
- Give about three lines as they stand in the file before and after each change.`;

/** Files of a patch, and bytes of a file. */
const maxFiles = 200;
const maxBytes = 10 * 2 ** 20;

/** For models that were trained on this format (events.md section 3). */
export const applyPatchTool: Tool<ApplyPatchAction, ApplyPatchObservation> = {
  name: "apply_patch",
  description,
  definition: toolDefinition("apply_patch", "ApplyPatch", description, "destructive"),
  parameters: Type.Object({
    patch: Type.String({ description: 'The patch, from "*** Begin Patch" to "*** End Patch".' }),
  }),
  actionKind: "ApplyPatchAction",
  risk: ({ patch }) => ({ findings: judgePatch(patch), usual: "MEDIUM" }),
  idempotent: false,
  readOnly: false,
  // Same keys as the file editor.
  resources: (action, workingDir) => [
    "apply_patch",
    ...touchedPaths(action, workingDir).map((path) => `file:${path}`),
  ],
  async run({ patch }, context) {
    const base = { kind: "ApplyPatchObservation" } as const;
    try {
      const changes = parsePatch(patch);
      const files = new Files(await context.sandbox(), context);
      let fuzz = 0;
      for (const change of changes) fuzz += await files.apply(change);
      const { writes, commit, message } = files.outcome();
      await writeAll(files.sandbox, writes, context.signal);
      return { ...base, content: [textContent(message)], is_error: false, message, fuzz, commit };
    } catch (error) {
      const mistake =
        error instanceof PatchError ||
        error instanceof UseError ||
        (error instanceof PlatformError && error.code === "InvalidParameter");
      if (!mistake) throw error;
      const text = error.message.endsWith(".") ? error.message : `${error.message}\nNothing was changed.`;
      return { ...base, content: [textContent(text)], is_error: true, message: "", fuzz: 0 };
    }
  },
};

interface PatchFile {
  /** Path as written in the patch. */
  name: string;
  /** Undefined for a new file. */
  before: string | undefined;
  now: string | undefined;
  format: TextFormat;
  movedTo?: string;
}

/** Files of a patch, with the changes applied so far. */
class Files {
  readonly sandbox: Sandbox;
  readonly #context: ToolContext;
  readonly #files = new Map<string, PatchFile>();

  constructor(sandbox: Sandbox, context: ToolContext) {
    this.sandbox = sandbox;
    this.#context = context;
  }

  /** Returns the fuzz. Throws PatchError, UseError. */
  async apply(change: FileChange): Promise<number> {
    const file = await this.#open(change.path);
    if (change.kind === "add") {
      if (file.now !== undefined)
        throw new PatchError(`${change.path} is there already: change it with "*** Update File".`);
      file.now = change.lines.length === 0 ? "" : `${change.lines.join("\n")}\n`;
      return 0;
    }
    if (file.now === undefined) throw new PatchError(`There is no file ${change.path}.`);
    if (change.kind === "delete") {
      file.now = undefined;
      return 0;
    }
    const { text, fuzz } = applyHunks(change.path, file.now, change.hunks);
    file.now = text;
    if (change.moveTo === undefined || this.#resolve(change.moveTo) === this.#resolve(change.path))
      return fuzz;
    const target = await this.#open(change.moveTo);
    if (target.now !== undefined)
      throw new PatchError(`${change.path} cannot be moved: ${change.moveTo} is there already.`);
    Object.assign(target, { now: text, format: file.format });
    Object.assign(file, { now: undefined, movedTo: change.moveTo });
    return fuzz;
  }

  /** The writes, and the changes for the observation. Throws UseError. */
  outcome(): { writes: Write[]; commit: { changes: Record<string, PatchedFile> }; message: string } {
    const changed = [...this.#files].filter(([, { before, now }]) => before !== now);
    const targets = new Set(
      changed.flatMap(([, { movedTo }]) => (movedTo === undefined ? [] : [this.#resolve(movedTo)])),
    );
    const writes = changed.map(([path, { now, format }]) => {
      const content = now === undefined ? undefined : encodeText(path, { text: now, format });
      if (content && content.length > maxBytes) throw new PatchError(`${path} would be larger than 10 MB.`);
      return { path, content };
    });
    const changes: Record<string, PatchedFile> = {};
    const lines: string[] = [];
    for (const [path, file] of changed) {
      // A moved file is reported once, under its old name.
      if (targets.has(path) && file.before === undefined) continue;
      const { name, movedTo, before } = file;
      const now = movedTo === undefined ? file.now : this.#files.get(this.#resolve(movedTo))?.now;
      const type = before === undefined ? "add" : now === undefined ? "delete" : "update";
      changes[name] = {
        type,
        ...(before !== undefined && { old_content: before }),
        ...(now !== undefined && { new_content: now }),
        ...(movedTo !== undefined && { move_path: movedTo }),
      };
      lines.push(
        `${{ add: "A", delete: "D", update: "M" }[type]} ${name}${movedTo === undefined ? "" : ` -> ${movedTo}`}`,
      );
    }
    const message =
      lines.length === 0 ? "The files are as the patch wants them already." : `Done!\n${lines.join("\n")}`;
    return { writes, commit: { changes }, message };
  }

  async #open(name: string): Promise<PatchFile> {
    const path = this.#resolve(name);
    const known = this.#files.get(path);
    if (known) return known;
    if (this.#files.size >= maxFiles) throw new PatchError(`A patch may name ${maxFiles} files.`);
    const found = await readFile(this.sandbox, path, { maxBytes, signal: this.#context.signal });
    const file: PatchFile = { name, before: undefined, now: undefined, format: newFormat };
    if (found.kind === "directory") throw new PatchError(`${name} is a directory.`);
    if (found.kind === "too_large") throw new PatchError(`${name} is larger than 10 MB.`);
    if (found.kind === "unreadable") throw new PatchError(`${name} cannot be read: ${found.reason}.`);
    if (found.kind === "file") {
      const { text, format } = decodeText(path, found.content);
      Object.assign(file, { before: text, now: text, format });
    }
    this.#files.set(path, file);
    return file;
  }

  #resolve(name: string): string {
    const { workingDir } = this.#context;
    const path = posix.resolve(workingDir, name);
    if (name.includes("\0") || !path.startsWith(workingDir === "/" ? "/" : `${workingDir}/`))
      throw new PatchError(`${name.slice(0, 300)} is outside of the working folder ${workingDir}.`);
    return path;
  }
}
