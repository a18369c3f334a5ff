import type { ReadFileAction, ReadFileObservation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { Type } from "typebox";
import { judgeEdit } from "../risk/edit-rules.ts";
import { toolDefinition } from "./definition.ts";
import { maxResult, textLines } from "./file-editor/edits.ts";
import { UseError } from "./file-editor/use-error.ts";
import { fileKey, readText, resolvePath, resultOf } from "./plain-files/access.ts";
import type { Tool } from "./tool.ts";

/** Lines of a result. */
const maxLines = 1_000;

const description = `Reads a text file and shows its lines with numbers, ${maxLines} at most.

- file_path is absolute or relative to the working directory.
- offset is the number of lines before the first one that is shown, limit the number of lines.
A result that is cut says so and names the offset of the rest.`;

/** Reads a file, for agents of the SDK's gemini preset (events.md section 3). */
export const readFileTool: Tool<ReadFileAction, ReadFileObservation> = {
  name: "read_file",
  description,
  definition: toolDefinition("read_file", "ReadFile", description, "readOnly", "idempotent"),
  parameters: Type.Object({
    file_path: Type.String({ description: "The path to the file to read." }),
    offset: Type.Optional(Type.Integer({ minimum: 0, description: "Lines to leave out first." })),
    limit: Type.Optional(Type.Integer({ minimum: 1, description: "Maximum number of lines." })),
  }),
  actionKind: "ReadFileAction",
  risk: ({ file_path: path }) => ({ findings: judgeEdit({ command: "view", path }), usual: "LOW" }),
  idempotent: true,
  readOnly: true,
  resources: ({ file_path: path }, workingDir) => [fileKey(path, workingDir)],
  async run({ file_path: given, offset, limit }, context) {
    const kind = "ReadFileObservation" as const;
    const found = await resultOf(
      async () => {
        const path = resolvePath(context, given);
        const file = await readText(context, path);
        if (!file) throw new UseError(`There is no file ${path}.`);
        return { kind, file_path: path, ...show(path, file.text, offset ?? 0, limit ?? maxLines) };
      },
      () => ({ kind, file_path: given, file_content: "", is_truncated: false }),
    );
    return found;
  },
};

/** The chosen lines, as many as fit into a result. Throws UseError when none is left. */
function show(path: string, text: string, offset: number, limit: number) {
  const lines = textLines(text);
  if (offset > 0 && offset >= lines.length)
    throw new UseError(`The file has ${lines.length} lines, so none is left after offset ${offset}.`);
  let file_content = "";
  let end = offset;
  while (end < lines.length && end < offset + limit) {
    const line = `${String(end + 1).padStart(6)}  ${lines[end]}\n`;
    if (file_content !== "" && file_content.length + line.length > maxResult) break;
    file_content += line.length > maxResult ? `${line.slice(0, maxResult)}… (line cut)\n` : line;
    end++;
  }
  const is_truncated = end < lines.length;
  const rest = is_truncated
    ? `Lines ${offset + 1} to ${end} of ${lines.length}; offset ${end} shows more.\n`
    : "";
  return {
    content: [textContent(`Content of ${path} with line numbers:\n${rest}${file_content}`)],
    file_content,
    is_truncated,
    ...(is_truncated && { lines_shown: [offset + 1, end] }),
    total_lines: lines.length,
  };
}
