import type { EditAction, EditObservation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { Type } from "typebox";
import { judgeEdit } from "../risk/edit-rules.ts";
import { toolDefinition } from "./definition.ts";
import { UseError } from "./file-editor/use-error.ts";
import { fileKey, readText, resolvePath, resultOf, writeText } from "./plain-files/access.ts";
import type { Tool, ToolContext } from "./tool.ts";

const description = `Replaces a text in a file, once unless expected_replacements says another number.

- file_path is absolute or relative to the working directory.
- old_string must stand in the file exactly as often as expected, whitespace included; give lines around it.
- An empty old_string makes a new file with new_string.`;

/** Replaces texts, for agents of the SDK's gemini preset (events.md section 3). */
export const editTool: Tool<EditAction, EditObservation> = {
  name: "edit",
  description,
  definition: toolDefinition("edit", "Edit", description, "destructive"),
  parameters: Type.Object({
    file_path: Type.String({ description: "The path to the file to change." }),
    old_string: Type.String({ description: "The text to replace; empty for a new file." }),
    new_string: Type.String({ description: "The new text." }),
    expected_replacements: Type.Optional(
      Type.Integer({ minimum: 0, default: 1, description: "How often old_string stands in the file." }),
    ),
  }),
  actionKind: "EditAction",
  risk: ({ file_path: path, new_string }) => ({
    findings: judgeEdit({ command: "str_replace", path, new_str: new_string }),
    usual: "MEDIUM",
  }),
  idempotent: false,
  readOnly: false,
  resources: ({ file_path: path }, workingDir) => [fileKey(path, workingDir)],
  completeArguments: (received) => ({ expected_replacements: 1, ...received }),
  run(action, context) {
    const kind = "EditObservation" as const;
    return resultOf(
      async () => ({ kind, ...(await replace(action, context)) }),
      () => ({ kind, is_new_file: false, replacements_made: 0 }),
    );
  },
};

/** Throws UseError, and changes nothing then. */
async function replace(
  { file_path: given, old_string: old, new_string: text, expected_replacements: expected = 1 }: EditAction,
  context: ToolContext,
) {
  const path = resolvePath(context, given);
  const before = await readText(context, path);
  if (old === "") {
    if (before) throw new UseError(`There is a file ${path} already; write_file replaces it.`);
    await writeText(context, path, text, undefined);
    return {
      content: [textContent(`Created the file ${path}.`)],
      ...{ file_path: path, is_new_file: true, replacements_made: 1, old_content: null, new_content: text },
    };
  }
  if (!before) throw new UseError(`There is no file ${path}; an empty old_string makes a new one.`);
  const own = (value: string) => (before.format.crlf ? value.replaceAll("\r\n", "\n") : value);
  const parts = before.text.split(own(old));
  const count = parts.length - 1;
  if (count === 0)
    throw new UseError(`old_string does not stand in ${path}; read_file shows its exact text.`);
  if (count !== expected)
    throw new UseError(`old_string stands ${count} times in ${path}, not ${expected} times.`);
  const after = parts.join(own(text));
  if (after === before.text) throw new UseError("old_string and new_string are the same.");
  await writeText(context, path, after, before);
  return {
    content: [textContent(`Edited ${path}: ${count} ${count === 1 ? "replacement" : "replacements"}.`)],
    ...{ file_path: path, is_new_file: false, replacements_made: count },
    ...{ old_content: before.text, new_content: after },
  };
}
