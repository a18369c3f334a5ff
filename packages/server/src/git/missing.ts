import { type ErrorCode, PlatformError } from "../errors.ts";

/** The result of work, or another value where it fails with one of these errors. */
export async function orElse<T, E>(work: Promise<T>, other: E, codes: readonly ErrorCode[]): Promise<T | E> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof PlatformError && codes.includes(error.code)) return other;
    throw error;
  }
}
