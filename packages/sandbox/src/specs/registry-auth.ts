import { readFileSync } from "node:fs";
import { PlatformError } from "@sandpiper/core/errors";
import { isObject } from "@sandpiper/core/is-object";
import { findJsonFault } from "@sandpiper/core/json-fault";

/**
 * Checks the operator's file with credentials for registries before a user needs it. Quotes nothing
 * of it. Throws ConfigInvalid.
 */
export function checkRegistryAuth(file: string): void {
  const fail = (reason: string) => new PlatformError("RegistryAuthInvalid", { file, reason });
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw fail(`cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  const place = findJsonFault(text);
  if (place !== undefined) throw fail(`is not JSON (${place})`);
  const value: unknown = JSON.parse(text);
  if (!isObject(value) || !isObject(value.auths))
    throw fail('is no object with "auths", as docker login writes it');
}
