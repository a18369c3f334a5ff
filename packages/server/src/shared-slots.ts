import type { Logger } from "@sandpiper/core/log/logger";
import type { Config } from "./config/config.ts";
import { SharedSlots } from "./nodes/shared-slots.ts";
import type { SlotKind } from "./store/slot-store.ts";
import type { Store } from "./store/store.ts";

/** Opens the slots of users that the nodes share. `opened` gets a function that closes them. */
export function openSharedSlots(
  { maxRuns, maxSandboxes }: Pick<Config, "maxRuns" | "maxSandboxes">,
  parts: {
    store: Pick<Store, "slots">;
    ownership: { readonly incarnation: string };
    logger: Logger;
    opened: (() => Promise<unknown>)[];
  },
): { runs: SharedSlots; sandboxes: SharedSlots } {
  const { store, ownership, logger, opened } = parts;
  const node = () => ownership.incarnation;
  const open = (kind: SlotKind, max: number) => {
    const shared = new SharedSlots({ slots: store.slots!, kind, max, node, logger });
    opened.push(async () => shared.close());
    return shared;
  };
  return { runs: open("run", maxRuns), sandboxes: open("sandbox", maxSandboxes) };
}
