import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { nameOf, type Result } from "./run-checks.ts";

const signs = { passed: "yes", failed: "no", absent: "–" } as const;

/**
 * Writes docs/clients/matrix.md: feature by client and version, with the reasons of failures.
 */
export function writeMatrix(root: string, results: readonly Result[]): void {
  const clients = [...new Set(results.map(({ client }) => client))].sort();
  const sections = clients.map((client) => section(root, client, results));
  writeFileSync(
    join(root, "docs/clients/matrix.md"),
    `# Released clients

<!-- not executed: the command installs the clients and runs for minutes -->
\`\`\`sh
npm run test:clients
\`\`\`

The command installs the released clients and runs a script for each feature against a real server,
real sandboxes and a scripted model. This page shows its last run: "yes" works, "no" does not,
"–" is not in this version of the client. Run it again to renew the page.

${sections.join("\n")}`,
  );
}

function section(root: string, client: string, results: readonly Result[]): string {
  const own = results.filter((result) => result.client === client);
  const versions = [...new Set(own.map(({ version }) => version))].sort();
  const checks = [...new Set(own.map(({ check }) => check))].sort();
  const rows = checks.map((check) => {
    const cells = versions.map((version) => {
      const found = own.find((result) => result.version === version && result.check === check);
      return found ? signs[found.result] : "";
    });
    return `| ${titleOf(root, check)} | ${cells.join(" | ")} |`;
  });
  const failures = own
    .filter(({ result }) => result === "failed")
    .map(({ version, check, detail }) => `- ${version}, ${titleOf(root, check)}: \`${oneLine(detail)}\``);
  const why = failures.length > 0 ? `\nWhat does not work:\n\n${failures.join("\n")}\n` : "";
  return `## ${client}

| Feature | ${versions.join(" | ")} |
|---|${"---|".repeat(versions.length)}
${rows.join("\n")}
${why}`;
}

/** The first line of a check says what it shows. */
function titleOf(root: string, check: string): string {
  const path = globSync(join(root, "scripts/clients/*/checks/*")).find((each) => nameOf(each) === check);
  if (!path) return check;
  const [line = check] = readFileSync(path, "utf8").split("\n");
  return line.replace(/^(?:"""|\/\*\* ?)/, "").replace(/ ?(?:"""|\*\/)$/, "");
}

function oneLine(text: string): string {
  return text.split("\n")[0]!.replaceAll("`", "'").slice(0, 200);
}
