import { PlatformError } from "@sandpiper/core/errors";
import { maskText } from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import type { EncryptedValues } from "../../../users/encrypted-values.ts";
import type { ShowSecret } from "../../../users/settings/fields.ts";

/**
 * How to present secrets, from the header `X-Expose-Secrets` (agent-server.md section 9); masked by
 * default. Throws ReadOnlyKey, and InvalidParameter for unknown values.
 */
export function parseExposure(
  { headers, principal }: FastifyRequest,
  encryptedValues: EncryptedValues,
): ShowSecret {
  const wanted = headers["x-expose-secrets"];
  if (wanted === undefined) return () => maskText;
  if (principal.readOnly) throw new PlatformError("KeyReadOnlyForSecrets");
  switch (String(wanted).toLowerCase()) {
    case "plaintext":
      return (secret) => secret;
    case "encrypted":
      return (secret) => encryptedValues.encrypt(principal.userId, secret);
    default:
      throw new PlatformError("ExposureInvalid");
  }
}
