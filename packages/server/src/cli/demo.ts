import { cp } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import type { ExecutionStatus } from "@sandpiper/wire";
import type { Config } from "../config/config.ts";
import type { Platform } from "../platform.ts";
import { defaultUser } from "../users/default-user.ts";
import { Changes, type Patch } from "./changes.ts";
import type { Client } from "./client.ts";
import { exitCodes } from "./errors.ts";
import { isolatedGit, runGit } from "./git.ts";
import { inertLine } from "./inert.ts";
import { loadConfig } from "./load-config.ts";
import { openAccess, openPlatform, probePort } from "./local-platform.ts";
import { formatUsage, Progress } from "./progress.ts";
import { waitForSignal } from "./serve.ts";
import { Interrupted, onStop } from "./signals.ts";
import { createPaint, formatDuration, type Paint } from "./style.ts";
import { collectChanges, followTask, prepareTask, type Task, type TaskRun } from "./task.ts";
import { createTemporaryFolder, type TemporaryFolder } from "./temporary-folder.ts";

const demoProject = fileURLToPath(new URL("../../demo/project/", import.meta.url));
const taskText =
  "The test of this project fails: `sh test.sh`. Find out why, repair the code and make sure that the test passes.";
const testCommand = ["sh", "test.sh"];

export interface DemoOptions {
  /** End instead of serving. */
  exit?: boolean;
  /** Folder with the project to repair; default: the demo's own. */
  project?: string;
}

/**
 * `sandpiper demo`: repairs a small repository with a failing test, live. Returns the exit code.
 */
export async function demo(options: DemoOptions): Promise<number> {
  const config = await demoConfig(options.exit === true);
  const folder = await demoRepository(options.project ?? demoProject);
  let platform: Platform | undefined;
  try {
    platform = await openPlatform(config);
    const { client, key, createLoginUrl, release } = await openAccess(platform, {
      dataDir: config.dataDir,
      stays: false,
    });
    const { run, passed } = await runDemo(platform, client, {
      folder: folder.path,
      text: taskText,
      model: "demo/repair",
    });
    if (!options.exit) {
      process.stdout.write(
        formatClosing({
          ...{ url: platform.url, key, conversationId: run.conversationId! },
          loginUrl: await createLoginUrl(),
        }),
      );
      await waitForSignal(() => {});
    }
    await client.deleteSandbox(run.sandbox.id);
    await release();
    return passed ? exitCodes.ok : exitCodes.failed;
  } finally {
    await platform?.close();
    await folder.remove();
  }
}

/** The configuration with a data folder for the demo, and a free port. */
async function demoConfig(exit: boolean): Promise<Config> {
  const config = loadConfig();
  config.dataDir = join(config.dataDir, "demo");
  if (!process.env.SANDPIPER_LOG_LEVEL) config.logLevel = "error";
  if (exit || (!process.env.SANDPIPER_PORT && (await probePort(config.host, config.port)) !== true))
    config.port = 0;
  return config;
}

/** A git repository with the demo's project in a temporary folder. */
async function demoRepository(project: string): Promise<TemporaryFolder> {
  const folder = await createTemporaryFolder("demo");
  await cp(project, folder.path, { recursive: true });
  const author = [
    "-c",
    "user.name=Sandpiper demo",
    "-c",
    "user.email=demo@example.com",
    "-c",
    "commit.gpgSign=false",
  ];
  for (const args of [
    ["init", "-q", "-b", "main"],
    ["add", "-A"],
    [...author, "commit", "-q", "-m", "A project with a failing test"],
  ])
    await runGit(args, { cwd: folder.path, env: isolatedGit });
  return folder;
}

/**
 * Runs the task and shows its events. `passed`: the test passes in the sandbox, whatever the agent
 * says.
 */
async function runDemo(
  platform: Platform,
  client: Client,
  task: Task,
): Promise<{ run: TaskRun; passed: boolean }> {
  const out = process.stdout;
  const paint = createPaint(out);
  out.write(`${paint("bold", "Sandpiper demo")}: ${inertLine(task.text)}\n`);
  out.write(
    "The model is demo/repair, a small program and not an LLM; the server, the sandbox and the tools are real.\n\n",
  );
  const progress = new Progress(out, paint, "starts a sandbox");
  const abort = new AbortController();
  const restore = onStop((signal) => abort.abort(new Interrupted(signal)));
  let run: TaskRun | undefined;
  let changes: Changes | undefined;
  try {
    changes = await Changes.since(task.folder);
    run = await prepareTask(client, task, { signal: abort.signal });
    progress.print(
      paint(
        "dim",
        `sandbox ${inertLine(run.sandbox.id)} runs, the repository is in ${inertLine(run.workingDir)}`,
      ),
    );
    const asked = progress.elapsed;
    const status = await followTask(client, task, run, (event) => progress.event(event), {
      signal: abort.signal,
    });
    progress.stop();
    const patch = await collectChanges(client, run, changes);
    const passed = await testPasses(platform, run);
    out.write(await summary(paint, patch, { run, status, progress, asked, passed }));
    return { run, passed };
  } catch (error) {
    if (run) await client.deleteSandbox(run.sandbox.id).catch(() => {});
    throw error;
  } finally {
    progress.stop();
    restore();
    await changes?.close();
  }
}

/** Runs the test in the sandbox independently of the agent. */
async function testPasses(platform: Platform, { sandbox, workingDir }: TaskRun): Promise<boolean> {
  if (!(await platform.sandboxes.get(defaultUser, sandbox.id))) return false;
  const handle = await platform.sandboxes.running(sandbox.id);
  const { code } = await runToEnd(handle, { argv: testCommand, cwd: workingDir }, { timeoutMs: 60_000 });
  return code === 0;
}

interface Outcome {
  run: TaskRun;
  status: ExecutionStatus;
  progress: Progress;
  /** Time of the start request, ms since the beginning. */
  asked: number;
  passed: boolean;
}

async function summary(
  paint: Paint,
  patch: Patch | undefined,
  { run, status, progress, asked, passed }: Outcome,
): Promise<string> {
  const row = (name: string, value: string) => `  ${name.padEnd(16)}${value}`;
  const verdict = passed ? paint("green", "passes") : paint("red", "FAILS");
  return [
    "",
    patch ? await patch.display(paint) : "Nothing changed.\n",
    row("run", `${status}, ${formatUsage(progress.usage)}`),
    row("test", `${testCommand.join(" ")} ${verdict} in the sandbox now`),
    row("sandbox start", formatDuration(run.timings.sandboxStart)),
    row("first event", formatDuration((progress.firstEvent ?? asked) - asked)),
    row("whole run", formatDuration(run.timings.run)),
    "",
  ].join("\n");
}

interface Closing {
  url: string;
  key: string;
  loginUrl: string;
  conversationId: string;
}

function formatClosing({ url, key, loginUrl, conversationId }: Closing): string {
  return `
  server          ${url}   (API documentation: ${url}/docs)
  log in          ${loginUrl}   (once, within ten minutes)
  API key         ${key}   (works until the demo ends)

  curl -H 'X-Session-API-Key: ${key}' '${url}/api/v1/conversation/${conversationId}/events/search?limit=100'

The server keeps running; Ctrl-C ends it.
`;
}
