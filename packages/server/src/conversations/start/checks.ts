import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { newId, parseId } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Settings } from "../../users/api.ts";
import { checkReferences } from "./launched-profile.ts";

type AgentProfile = NonNullable<Awaited<ReturnType<Settings["agentProfiles"]["byId"]>>>;

/** The dashed id that a client chose in a field, else a new one. Throws InvalidParameter. */
export function parseOrCreateId(text: string | null | undefined, field: string): string {
  const id = text ? parseId(text) : newId();
  if (!id) throw new PlatformError("NotUuid", { field });
  return id;
}

/** Throws SandboxNotFound. */
export async function requireStartSandbox(
  sandboxes: Pick<Sandboxes, "get">,
  userId: string,
  id: string,
): Promise<SandboxRow> {
  const sandbox = await sandboxes.get(userId, id);
  if (!sandbox) throw new PlatformError("StartSandboxUnknown", { id });
  return sandbox;
}

/** Throws ProfileNotFound, and InvalidParameter when something that it names is missing. */
export async function requireAgentProfile(
  settings: Settings,
  userId: string,
  id: string,
): Promise<AgentProfile> {
  const profile = await settings.agentProfiles.byId(userId, id);
  if (!profile) throw new PlatformError("StartProfileUnknown");
  await checkReferences(settings, userId, profile);
  return profile;
}

/** The parent that a request names, if it belongs to the user. */
export async function findParent(
  { conversations }: Pick<Store, "conversations">,
  userId: string,
  text: string,
): Promise<ConversationRow | undefined> {
  const id = parseId(text);
  const parent = id ? await conversations.get(id) : undefined;
  return parent?.userId === userId ? parent : undefined;
}
