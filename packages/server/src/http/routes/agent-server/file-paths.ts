import { PlatformError } from "@sandpiper/core/errors";
import { Type } from "typebox";

/** An absolute path in the query, or in one encoded segment of the address. */
export const path = Type.String({ minLength: 1, maxLength: 4_000, description: "absolute" });

/** Where a user's key comes without `/agent/<sandbox id>`, this names the sandbox. */
export const sandboxKeys = {
  sandbox_id: Type.Optional(Type.String({ description: "needed where no session key names the sandbox" })),
};

export const PathQuery = Type.Object({ path, ...sandboxKeys });
export const SandboxQuery = Type.Object(sandboxKeys);
export const PathParams = Type.Object({ path });

/**
 * The parameters of a route that ends in `/*`: a path with its own slashes, the first of which follows the one of the route (`/api/file/download//tmp/x`).
 * Such a route stands beside the one with `:path`, which the document shows (agent-server.md section 12).
 */
export const SlashedParams = Type.Object({ "*": path });

/** Throws PlatformError BadRequest for a path that is not absolute. */
export function absolute(text: string): string {
  if (!text.startsWith("/")) throw new PlatformError("BadRequest", "The path must be absolute.");
  return text;
}

/** What a file operation gives; a path that it cannot use is a BadRequest, as in the reference (agent-server.md section 8). */
export async function usable<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof PlatformError && ["NotAFile", "InvalidParameter"].includes(error.code)))
      throw error;
    throw new PlatformError("BadRequest", error.message, { cause: error });
  }
}
