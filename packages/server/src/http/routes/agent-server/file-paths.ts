import { PlatformError } from "@sandpiper/core/errors";
import { Type } from "typebox";

/** An absolute path, in the query or in one encoded segment. */
export const absolutePath = Type.String({ minLength: 1, maxLength: 4_000, description: "absolute" });

/** Names the sandbox for a user's key without `/agent/<sandbox id>`. */
export const sandboxKeys = {
  sandbox_id: Type.Optional(Type.String({ description: "required without a session key" })),
};

export const SandboxQuery = Type.Object(sandboxKeys);
export const PathParams = Type.Object({ path: absolutePath });

/**
 * Parameters of a route ending in `/*`: a path with its own slashes after the route's
 * (`/api/file/download//tmp/x`). It complements the documented route with `:path` (agent-server.md
 * section 12).
 */
export const SlashedParams = Type.Object({ "*": absolutePath });

/** Throws PlatformError BadRequest for a relative path. */
export function requireAbsolute(text: string): string {
  if (!text.startsWith("/")) throw new PlatformError("PathNotAbsolute");
  return text;
}

/**
 * Converts errors for unusable paths to BadRequest, as in the reference (agent-server.md section
 * 8).
 */
export async function toBadRequest<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof PlatformError && ["NotAFile", "InvalidParameter"].includes(error.code)))
      throw error;
    throw new PlatformError("PathUnusable", { reason: error.message }, { cause: error });
  }
}
