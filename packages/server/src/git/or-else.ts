import { type ErrorCode, PlatformError } from "@sandpiper/core/errors";

/** The result of work, or another value where it fails with one of these errors. */
export async function orElse<T, E>(work: Promise<T>, other: E, codes: readonly ErrorCode[]): Promise<T | E> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof PlatformError && codes.includes(error.code)) return other;
    throw error;
  }
}

/** What is wrong with single repositories, and should not spoil a list over many. */
export const unreadable: readonly ErrorCode[] = ["RepositoryNotFound", "GitTokenTooWeak", "BadRequest"];
