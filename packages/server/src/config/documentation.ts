import { otherVariables } from "./other-variables.ts";
import { variables } from "./variables.ts";

/** The variables as text for `sandpiper serve --help`. */
export function formatVariablesHelp(): string {
  const width = Math.max(...Object.values(variables).map(({ name }) => name.length)) + 2;
  const lines = Object.values(variables).map(
    ({ name, description: meaning, defaultText }) =>
      `  ${name.padEnd(width)}${meaning} (default: ${defaultText})`,
  );
  return ["Environment:", ...lines].join("\n");
}

/** The variables as the Markdown tables of docs/team/configuration.md. */
export function formatVariablesMarkdown(): string {
  const row = (name: string, meaning: string, defaultText: string, must: string) =>
    `| \`${name}\` | ${meaning} | ${defaultText} | ${must} |`;
  return [
    "| Variable | Meaning | Default | Value |",
    "|---|---|---|---|",
    ...Object.values(variables).map((v) => row(v.name, v.description, v.defaultText, v.must)),
    ...otherVariables.map((v) =>
      row(v.name, v.meaning, v.defaultText, v.name === "SANDPIPER_URL" ? "an http or https address" : "1"),
    ),
  ].join("\n");
}
