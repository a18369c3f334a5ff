import { type ErrorCode, PlatformError } from "@sandpiper/core/errors";

/** The result of a promise, or another value when it fails with one of these codes. */
export async function orElse<T, E>(work: Promise<T>, other: E, codes: readonly ErrorCode[]): Promise<T | E> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof PlatformError && codes.includes(error.code)) return other;
    throw error;
  }
}

/** Errors of single repositories that are ignored in lists of many. */
export const unreadable: readonly ErrorCode[] = ["RepositoryNotFound", "GitTokenTooWeak", "BadRequest"];
