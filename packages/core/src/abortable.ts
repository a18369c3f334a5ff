/**
 * Waits for work that cannot be cancelled. Throws the signal's reason as soon as it is aborted; the
 * work continues unobserved.
 */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  work.catch(() => {});
  signal.addEventListener("abort", onAbort);
  try {
    signal.throwIfAborted();
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
