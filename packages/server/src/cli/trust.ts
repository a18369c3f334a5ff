import type { Behaviour } from "@sandpiper/wire";
import { ask, canAsk } from "./ask.ts";
import type { Client } from "./client.ts";
import { inert, inertLine } from "./inert.ts";
import { pieces } from "./lines.ts";
import { page } from "./pager.ts";
import type { Paint } from "./style.ts";
import type { TaskRun } from "./task.ts";

/** Rows of the terminal that the question and what surrounds it need. */
const questionRows = 5;

/** What each kind of part does, for people. */
const kinds: Readonly<Record<Behaviour["parts"][number]["kind"], string>> = {
  setup_script: "runs when a conversation begins",
  pre_commit: "is run by git, for example at each commit",
  hook: "runs at an event of the agent",
  model_hook: "asks your model at an event of the agent",
  mcp_server: "gives the agent tools of an MCP server",
  skill_command: "runs when the agent reads a skill",
  git_setting: "names programs that git runs",
  sub_agent: "gives a sub-agent fewer confirmations or another model",
  file: "is named by one of these",
};

export interface TrustOptions {
  /** Accept without a question. */
  trust?: boolean | undefined;
  paint: Paint;
}

/**
 * Asks whether what the folder of a run does by itself may use the user's secrets, unless that was
 * accepted before. Without acceptance the run goes on, and its sandbox gets no secrets.
 */
export async function askTrust(
  client: Client,
  { sandbox, workingDir }: Pick<TaskRun, "sandbox" | "workingDir">,
  origin: string,
  { trust = false, paint }: TrustOptions,
): Promise<void> {
  const found = await client.findBehaviour(sandbox.id, workingDir, origin);
  if (!found || found.accepted_at !== null) return;
  if (trust || (canAsk() && (await isAccepted(found, paint)))) {
    await client.acceptBehaviour(found.digest);
    return;
  }
  process.stderr.write(
    `The folder runs programs by itself, so the sandbox gets none of your secrets: ${inertLine(describe(found))}. --trust accepts it.\n`,
  );
}

async function isAccepted(found: Behaviour, paint: Paint): Promise<boolean> {
  const width = Math.max((process.stderr.columns ?? 80) - 1, 20);
  const lines = toLines(found).flatMap((line) => pieces(line.replaceAll("\t", "    "), width));
  const room = Math.max((process.stderr.rows ?? 24) - questionRows, 5);
  const more = lines.slice(room);
  const isLong = more.length > 0;
  process.stderr.write(
    `${paint("bold", inertLine(`${found.origin} does this by itself:`))}\n${inert(lines.slice(0, room).join("\n"))}\n`,
  );
  if (isLong) process.stderr.write(`… ${more.length} more lines; v shows all of them.\n`);
  for (let seen = !isLong; ; ) {
    const answer = (await ask(paint("bold", "May it use your secrets and tokens? [y/N, v to view] "))) ?? "";
    const views = /^v(iew)?$/i.test(answer);
    const accepts = /^y(es)?$/i.test(answer);
    if (!views && (seen || !accepts)) return accepts;
    if (!views) process.stderr.write("Not all of it was shown: here it is, then the question again.\n");
    await page(lines);
    seen = true;
  }
}

function toLines({ parts }: Behaviour): string[] {
  return parts.flatMap(({ kind, source, text }) => [
    `${inertLine(source)} ${kinds[kind]}:`,
    ...text.split("\n").map((line) => `  ${inert(line)}`),
  ]);
}

function describe({ parts }: Behaviour): string {
  return [...new Set(parts.map(({ source }) => source))].join(", ").slice(0, 500);
}
