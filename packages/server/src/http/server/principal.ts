import type { KeyHolder, Viewer } from "../../users/api.ts";

/**
 * The caller: a user with an API key, or the holder of a sandbox's session key. The latter has
 * `sandboxId` and may use only that sandbox's agent-server surface and files.
 */
export interface Principal extends Partial<Omit<KeyHolder, keyof Viewer>>, Viewer {
  readonly sandboxId?: string;
  /** The user's sandbox whose session key came with the user's key. */
  readonly besideSandboxId?: string;
}
