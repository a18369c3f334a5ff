import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { caller, type TestPlatform } from "../../support/platform.ts";
import type { ServerProcess } from "../../support/server-process.ts";
import { interactiveTask } from "../every-append/interactive-task.ts";
import type { StoredRecord } from "../every-append/log.ts";
import { concurrentTask, sequentialTask, type Task } from "../every-append/task.ts";

/** A user with the settings that a task needs. */
export interface Worker {
  name: string;
  task: Task;
  /** How many of the conversations at once are theirs. */
  lanes: number;
  key: string;
}

/** The browser comes last in its task, and costs the most. */
const withoutBrowser: Task = {
  ...interactiveTask,
  steps: [...interactiveTask.steps.slice(0, -3)],
  expected: interactiveTask.expected.replace("eight,", ""),
};

/** Twenty conversations at once. */
export const workers = (): Worker[] => [
  { name: "plain", task: sequentialTask, lanes: 6, key: "" },
  { name: "whole", task: concurrentTask, lanes: 6, key: "" },
  { name: "talked", task: withoutBrowser, lanes: 6, key: "" },
  { name: "browsing", task: interactiveTask, lanes: 2, key: "" },
];

/** A conversation in progress. */
export interface ActiveConversation {
  id: string;
  worker: Worker;
  /** Its log and those of its sub-agents at each kill of the server. */
  readonly deaths: ReadonlyMap<string, readonly StoredRecord[]>[];
  /** Another fault occurred during the conversation. */
  faults: boolean;
}

export interface ChaosState {
  dataDir: string;
  /** Changes with every start. */
  server: ServerProcess;
  readonly active: Set<ActiveConversation>;
  /** No new conversation is started. */
  closing: boolean;
  readonly problems: string[];
  /** Number of finished conversations. */
  finished: number;
}

/** Requests of a user to the current server. */
export function callAs(state: ChaosState, { key }: Worker): TestPlatform["call"] {
  return (...request) => caller(state.server.url, key)(...request);
}

/** The rows of a query on the stored database. */
export function queryStored(dataDir: string, sql: string, ...values: string[]): Record<string, unknown>[] {
  const database = new DatabaseSync(join(dataDir, "store", "sandpiper.db"), {
    readOnly: true,
    timeout: 5_000,
  });
  try {
    return database.prepare(sql).all(...values);
  } finally {
    database.close();
  }
}
