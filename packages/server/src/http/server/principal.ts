import type { KeyHolder } from "../../users/api.ts";

/**
 * Who calls: a user by one of their keys, or the holder of a sandbox's session key. `sandboxId` is set for the latter: then only this
 * sandbox's agent-server surface and files are open.
 */
export interface Principal extends Partial<Omit<KeyHolder, "userId">> {
  readonly userId: string;
  readonly sandboxId?: string;
}
