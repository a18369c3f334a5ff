import { describeBlobReferences } from "./blob-references.ts";
import { describeBranches } from "./branches.ts";
import { describeConversations } from "./conversations.ts";
import type { StoreEngine } from "./engine.ts";
import { describeEventLog } from "./event-log.ts";
import { describeModelCalls } from "./model-calls.ts";
import { describeOrphans } from "./orphans.ts";
import { describePendingMessages } from "./pending-messages.ts";
import { describeQuotas } from "./quotas.ts";
import { describeRecords } from "./records.ts";
import { describeScopes } from "./scopes.ts";
import { describeStarts } from "./starts.ts";

/** Tests of the behaviour that all engines of the store share. */
export function describeStore(engine: StoreEngine): void {
  describeBlobReferences(engine);
  describeBranches(engine);
  describeConversations(engine);
  describeEventLog(engine);
  describeModelCalls(engine);
  describeOrphans(engine);
  describePendingMessages(engine);
  describeQuotas(engine);
  describeRecords(engine);
  describeScopes(engine);
  describeStarts(engine);
}
