import { posix } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { list, readFile, stat, writeFile } from "@sandpiper/sandbox/files/files";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import {
  type Content,
  type FileEditorAction,
  type FileEditorObservation,
  fileEditorCommands,
  textContent,
} from "@sandpiper/wire";
import type { ToolContext } from "../tool.ts";
import { clip, type Edit, insertLines, numbered, replaceOnce, snippet, textLines } from "./edits.ts";
import { EditHistory, versionsIn } from "./history.ts";
import { decodeText, encodeText, newFormat, type TextFormat } from "./text-file.ts";
import { invalidFile, invalidParameter, missingParameter, UseError } from "./use-error.ts";
import { viewDirectory, viewImage, viewText } from "./view.ts";

const maxBytes = 10 * 1024 * 1024;

type Result = Pick<FileEditorObservation, "prev_exist" | "old_content" | "new_content"> & {
  content: Content[];
};

/**
 * Runs a file editor command (agent-behaviour.md section 14). Invalid calls return an error
 * observation; sandbox failures throw.
 */
export async function editFile(
  action: FileEditorAction,
  context: ToolContext,
): Promise<FileEditorObservation> {
  const { command, path } = action;
  const base = { kind: "FileEditorObservation", command } as const;
  try {
    const editor = new Editor(await context.sandbox(), history(context), context);
    const { content, ...rest } = await editor.run(action);
    return { ...base, path, ...rest, content, is_error: false };
  } catch (error) {
    const mistake =
      error instanceof UseError || (error instanceof PlatformError && error.code === "InvalidParameter");
    if (!mistake) throw error;
    return { ...base, content: [textContent(error.message)], is_error: true, prev_exist: true };
  }
}

class Editor {
  readonly #sandbox: Sandbox;
  readonly #history: EditHistory;
  readonly #context: ToolContext;

  constructor(sandbox: Sandbox, edits: EditHistory, context: ToolContext) {
    this.#sandbox = sandbox;
    this.#history = edits;
    this.#context = context;
  }

  async run(action: FileEditorAction): Promise<Result> {
    const { command, path } = action;
    if (path.includes("\0")) throw invalidParameter("path", path, "A path holds no NUL character.");
    if (!path.startsWith("/")) throw invalidParameter("path", path, await this.#absoluteHint(path));
    switch (command) {
      case "view":
        return this.#view(path, action.view_range ?? undefined);
      case "create":
        return this.#create(path, action.file_text ?? undefined);
      case "str_replace": {
        const { old_str: oldText, new_str: newText } = action;
        if (oldText === undefined || oldText === null) throw missingParameter("old_str", command);
        if (newText === undefined || newText === null) throw missingParameter("new_str", command);
        if (oldText === "")
          throw invalidParameter("old_str", oldText, "It must not be empty; use insert to add text.");
        if (oldText === newText) throw invalidParameter("new_str", newText, "It must differ from old_str.");
        return this.#edit(path, (text, own) => replaceOnce(path, text, own(oldText), own(newText)));
      }
      case "insert": {
        const { insert_line: line, new_str: newText } = action;
        if (line === undefined || line === null) throw missingParameter("insert_line", command);
        if (newText === undefined || newText === null) throw missingParameter("new_str", command);
        return this.#edit(path, (text, own) => insertLines(text, line, own(newText)));
      }
      case "undo_edit":
        return this.#undo(path);
      default:
        throw invalidParameter("command", command, `It must be one of ${fileEditorCommands.join(", ")}.`);
    }
  }

  async #view(path: string, range: number[] | undefined): Promise<Result> {
    const file = await this.#read(path);
    if (file)
      return {
        content: viewImage(path, file) ?? viewText(path, decodeText(path, file).text, range),
        prev_exist: true,
      };
    if (range) throw invalidParameter("view_range", range, "It is not allowed when path is a directory.");
    const listing = await list(this.#sandbox, path);
    if (!listing) throw notThere(path);
    return { content: viewDirectory(path, listing), prev_exist: true };
  }

  async #create(path: string, text: string | undefined): Promise<Result> {
    if (text === undefined) throw missingParameter("file_text", "create");
    const existing = await stat(this.#sandbox, path);
    if (existing) {
      throw invalidParameter(
        "path",
        path,
        `There is a ${existing.kind === "directory" ? "directory" : "file"} already; create does not overwrite. Use str_replace or insert.`,
      );
    }
    const content = encodeText(path, { text, format: newFormat });
    if (content.length > maxBytes) throw invalidFile(path, tooLarge(content.length));
    await this.#write(path, content);
    this.#history.push(path, content);
    return { content: [textContent(`Created the file ${path}.`)], prev_exist: false, new_content: text };
  }

  async #edit(path: string, change: (text: string, own: (given: string) => string) => Edit): Promise<Result> {
    const before = await this.#readFile(path);
    const { text, format } = decodeText(path, before);
    const edit = change(text, (given) => (format.crlf ? given.replaceAll("\r\n", "\n") : given));
    const after = encodeText(path, { text: edit.text, format });
    if (after.length > maxBytes) throw invalidFile(path, tooLarge(after.length));
    await this.#write(path, after);
    this.#history.push(path, before);
    const shown = clip(
      `Edited ${path}. The lines around the change:\n${snippet(edit)}`,
      "View the file to see more.",
    );
    return {
      content: [textContent(`${shown}Review the change; edit the file again if it is not as it should be.`)],
      prev_exist: true,
      old_content: text,
      new_content: edit.text,
    };
  }

  async #undo(path: string): Promise<Result> {
    const current = await this.#readFile(path);
    const earlier = this.#history.last(path) ?? (await this.#recall(path, decodeText(path, current).format));
    if (!earlier) throw invalidParameter("path", path, "There is no edit of this file to undo.");
    await this.#write(path, earlier);
    this.#history.drop(path);
    const { text } = decodeText(path, earlier);
    const shown = `Undid the last edit of ${path}. Its content with line numbers:\n${numbered(textLines(text))}`;
    return {
      content: [textContent(clip(shown, "View the file to see more."))],
      prev_exist: true,
      old_content: decodeText(path, current).text,
      new_content: text,
    };
  }

  /** Restores versions from the log and returns the last, in the file's format. Throws UseError. */
  async #recall(path: string, format: TextFormat): Promise<Buffer | undefined> {
    const results = this.#context.earlier?.();
    if (!results) return undefined;
    const { versions, isHidden } = await versionsIn(path, results);
    if (isHidden && versions.length === 0) {
      const reason =
        "The version before holds the value of a secret, which is not kept beyond a restart: it cannot be undone.";
      throw invalidParameter("path", path, reason);
    }
    for (const text of versions.toReversed()) this.#history.push(path, encodeText(path, { text, format }));
    return this.#history.last(path);
  }

  /** Undefined for a directory. Throws UseError. */
  async #read(path: string): Promise<Buffer | undefined> {
    const found = await readFile(this.#sandbox, path, { maxBytes, signal: this.#context.signal });
    switch (found.kind) {
      case "file":
        return found.content;
      case "directory":
        return undefined;
      case "missing":
        throw notThere(path);
      case "too_large":
        throw invalidFile(path, tooLarge(found.size));
      case "unreadable":
        throw invalidFile(path, found.reason);
    }
  }

  async #readFile(path: string): Promise<Buffer> {
    const content = await this.#read(path);
    if (!content) throw invalidParameter("path", path, "It is a directory; only view works on directories.");
    return content;
  }

  #write(path: string, content: Buffer): Promise<void> {
    return writeFile(this.#sandbox, path, content, { signal: this.#context.signal });
  }

  async #absoluteHint(path: string): Promise<string> {
    const suggestion = posix.join(this.#context.workingDir, path);
    const there = path !== "" && (await stat(this.#sandbox, suggestion).catch(() => undefined)) !== undefined;
    return `It must be an absolute path, beginning with /.${there ? ` Did you mean ${suggestion}?` : ""}`;
  }
}

function history(context: ToolContext): EditHistory {
  const known = context.memory.get("file_editor");
  if (known instanceof EditHistory) return known;
  const fresh = new EditHistory();
  context.memory.set("file_editor", fresh);
  return fresh;
}

function notThere(path: string): UseError {
  return invalidParameter("path", path, "There is no such file or directory; give one that exists.");
}

function tooLarge(bytes: number): string {
  return `it is too large: ${(bytes / 1024 / 1024).toFixed(1)} MB, and 10 MB is the most`;
}
