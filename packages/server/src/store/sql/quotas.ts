import type { StorageQuotas } from "../../config/storage-quotas.ts";

/** What a conversation and its user have stored, bytes. */
export interface Stored {
  conversationBytes: number;
  userBytes: number;
}

/** What a full conversation may still store to record that it ends, bytes. */
const endingBytes = 2 ** 20;

/** The quota that further bytes exceed. `isEnding`: they record how a run ends. */
export function findExceeded(
  stored: Stored,
  bytes: number,
  quotas: StorageQuotas,
  isEnding: boolean,
): keyof StorageQuotas | undefined {
  const { conversationBytes, userBytes } = quotas;
  const reserve = isEnding ? endingBytes : 0;
  if (conversationBytes > 0 && stored.conversationBytes + bytes > conversationBytes + reserve)
    return "conversationBytes";
  if (!isEnding && userBytes > 0 && stored.userBytes + bytes > userBytes) return "userBytes";
  return undefined;
}
