import type { MetricsSnapshot } from "@sandpiper/wire";
import type { Kysely, RawBuilder } from "kysely";
import type { ConversationConfig } from "../conversation-store.ts";
import type { SqlReader, SqlWriter } from "./engine.ts";
import type { Tables } from "./tables.ts";

/** The parts of statements that the engines write differently. */
export interface SqlDialect {
  /** Gives the larger of a column's value and another number. */
  greatest(column: "updated_at", value: number): RawBuilder<number>;
  /** Condition that a title matches a pattern with `%` and `_`, without regard to ASCII case. */
  titleMatches(pattern: string): RawBuilder<boolean>;
  /** A field of a conversation's configuration. */
  configField(name: "selectedRepository" | "trigger"): RawBuilder<string>;
  /** Columns that repeat fields of a configuration for look-ups. */
  configColumns(config: ConversationConfig): Readonly<Record<string, unknown>>;
  /** The column with the node that owns a new start task. */
  startTaskOwner(owner: string | undefined): Readonly<Record<string, unknown>>;
  /** Columns that say how much of the cost of a copied log is already counted as spent. */
  countedCost(metrics: MetricsSnapshot | null): Readonly<Record<string, unknown>>;
  /** Changes fields of a conversation's configuration. Returns the number of changed rows. */
  changeConfig(engine: ConfigEngine, id: string, change: ConfigChange): Promise<number>;
  readonly queries: DialectQueries;
}

/** The parts of an engine that a change of a configuration uses. */
export interface ConfigEngine {
  build: Kysely<Tables>;
  reader: SqlReader;
  writer: SqlWriter;
}

export interface ConfigChange {
  /** New values of columns that are not part of the configuration. */
  columns: Readonly<Record<string, unknown>>;
  fields: Readonly<Partial<ConversationConfig>>;
}

/** Fixed statements, named after the rows that they read, and parts of statements. */
export interface DialectQueries {
  /** Reads the children of conversations, whose ids are one JSON array. */
  readonly childrenOf: string;
  readonly childrenWithoutTasks: string;
  readonly conversationsWithGoal: string;
  /** Condition of a conversation with an active goal. */
  readonly hasActiveGoal: string;
  /** Follows a column that must be in the first parameter, a JSON array of texts. */
  readonly isListed: string;
  /** Statements about the owners of start tasks; absent in an engine for one process. */
  readonly startTaskClaim?: StartTaskClaim;
  /** Number and bytes of a user's start tasks that are not over. */
  readonly openStartTasks: string;
  /** Model calls of a conversation after a number. */
  readonly modelCalls: string;
  readonly lastTools: string;
}

/** Statements about the nodes that own start tasks. */
export interface StartTaskClaim {
  /** Makes a node the owner of tasks. */
  readonly take: string;
  /** Reads the tasks of a node. */
  readonly taken: string;
  readonly isOwner: string;
  /** Condition that the fourth parameter owns a task. */
  readonly isOwned: string;
  /** Makes claims of the sandbox of a task wait for the end of the transaction. */
  readonly holdSandbox: string;
  /** Violates a constraint when another node owns the task. */
  readonly refuseOthers: string;
}
