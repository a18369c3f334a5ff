import type { Content, TerminalObservation } from "@sandpiper/wire";
import { contentText, textContent } from "@sandpiper/wire";

/** The output of a command with the facts around it (agent-behaviour.md section 13). */
export function renderTerminal({ content, metadata }: TerminalObservation): Content[] {
  const facts = [
    metadata.working_dir ? `[Current working directory: ${metadata.working_dir}]` : "",
    metadata.py_interpreter_path ? `[Python interpreter: ${metadata.py_interpreter_path}]` : "",
    metadata.exit_code === -1 ? "" : `[Exit code: ${metadata.exit_code}]`,
  ];
  const text = `${metadata.prefix}${contentText(content)}${metadata.suffix}`;
  return [textContent([text, ...facts].filter(Boolean).join("\n"))];
}
