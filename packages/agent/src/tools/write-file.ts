import type { WriteFileAction, WriteFileObservation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { Type } from "typebox";
import { judgeEdit } from "../risk/edit-rules.ts";
import { toolDefinition } from "./definition.ts";
import { fileKey, readText, resolvePath, resultOf, writeText } from "./plain-files/access.ts";
import type { Tool } from "./tool.ts";

const description = `Writes a whole text file: a new one with the folders above it, or instead of the file that is there.

file_path is absolute or relative to the working directory. Use edit for smaller changes.`;

/** Writes a file, for agents of the SDK's gemini preset (events.md section 3). */
export const writeFileTool: Tool<WriteFileAction, WriteFileObservation> = {
  name: "write_file",
  description,
  definition: toolDefinition("write_file", "WriteFile", description, "destructive"),
  parameters: Type.Object({
    file_path: Type.String({ description: "The path to the file to write." }),
    content: Type.String({ description: "The whole content of the file." }),
  }),
  actionKind: "WriteFileAction",
  risk: ({ file_path: path, content }) => ({
    findings: judgeEdit({ command: "create", path, file_text: content }),
    usual: "MEDIUM",
  }),
  idempotent: false,
  readOnly: false,
  resources: ({ file_path: path }, workingDir) => [fileKey(path, workingDir)],
  run({ file_path: given, content: text }, context) {
    const kind = "WriteFileObservation" as const;
    return resultOf(
      async () => {
        const path = resolvePath(context, given);
        const before = await readText(context, path);
        await writeText(context, path, text, before);
        return {
          kind,
          content: [textContent(`${before ? "Updated" : "Created"} the file ${path}.`)],
          file_path: path,
          is_new_file: before === undefined,
          old_content: before?.text ?? null,
          new_content: text,
        };
      },
      () => ({ kind, is_new_file: false }),
    );
  },
};
