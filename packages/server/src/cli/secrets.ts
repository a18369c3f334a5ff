import { text as readText } from "node:stream/consumers";
import type { CustomSecretInfo } from "@sandpiper/wire";
import { Refusal } from "./client.ts";
import { connect } from "./connect.ts";
import { CliError, exitCodes } from "./errors.ts";
import { inertJson, inertLine } from "./inert.ts";
import { askHidden } from "./line-editor/ask-hidden.ts";
import { formatTable } from "./table.ts";

type Page = { items: CustomSecretInfo[]; next_page_id: string | null };

const path = "/api/v1/secrets";

/** `sandpiper secrets ls`: the names of secrets and where they may go, without values. */
export async function listSecrets({ json }: { json?: boolean }): Promise<void> {
  const { client, close } = await connect();
  try {
    const found: CustomSecretInfo[] = [];
    for (let after: string | null = ""; after !== null; ) {
      const query: string = after === "" ? "" : `&page_id=${encodeURIComponent(after)}`;
      const page: Page = await client.json("GET", `${path}/search?limit=100${query}`);
      found.push(...page.items);
      after = page.next_page_id;
    }
    if (json) for (const secret of found) process.stdout.write(`${inertJson(secret)}\n`);
    else if (found.length > 0) process.stdout.write(formatSecrets(found));
    else process.stdout.write("You have no secrets yet.\n");
  } finally {
    await close();
  }
}

export interface SetSecretOptions {
  description?: string;
  host?: string[];
  /** Undefined keeps what is stored. */
  plain?: boolean;
}

/**
 * `sandpiper secrets set`: a value that is not given is asked for without echo, or read from
 * standard input, so that it is in no history of a shell.
 */
export async function setSecret(
  name: string,
  given: string | undefined,
  { description, host: hosts, plain }: SetSecretOptions,
): Promise<void> {
  const text = given ?? (process.stdin.isTTY ? await askHidden(`${name}: `) : await readText(process.stdin));
  if (text === undefined) throw new CliError("Interrupted.", { exitCode: exitCodes.interrupted });
  const value = given === undefined ? text.replace(/\r?\n$/, "") : text;
  const { client, close } = await connect();
  try {
    const json = {
      ...{ name, value },
      ...(description !== undefined && { description }),
      ...(hosts && { hosts }),
      ...(plain !== undefined && { plain }),
    };
    await client.json("POST", path, { json }).catch((error: Error) => {
      throw error instanceof Refusal && error.status === 422 ? describeRefusal(name, error) : error;
    });
  } finally {
    await close();
  }
}

/** `sandpiper secrets rm` */
export async function removeSecret(name: string): Promise<void> {
  const { client, close } = await connect();
  try {
    await client.json("DELETE", `${path}/${encodeURIComponent(name)}`).catch((error: Error) => {
      throw error instanceof Refusal && error.status === 404
        ? new CliError(`There is no secret ${inertJson(name)}: "sandpiper secrets ls" lists them.`)
        : error;
    });
  } finally {
    await close();
  }
}

function formatSecrets(secrets: readonly CustomSecretInfo[]): string {
  const rows = secrets.map(({ name, plain, hosts, description }) => [
    inertLine(name),
    plain ? "value" : "placeholder",
    hosts ? inertLine(hosts.join(", ")) : "allowed hosts",
    inertLine(description ?? ""),
  ]);
  return formatTable([["NAME", "INSIDE", "SENT TO", "DESCRIPTION"], ...rows]);
}

/** The server's reason without the place in the request, and never the value. */
function describeRefusal(name: string, { detail }: Refusal): CliError {
  const reason = detail.replace(/^[\w.[\]]+: /, "").replace(/\.?$/, ".");
  return new CliError(`The secret ${inertJson(name)} is refused: ${reason}`, { exitCode: exitCodes.usage });
}
