const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Calls `first` at the first SIGINT, SIGTERM or SIGHUP and exits at the second. Returns the
 * function that removes the handlers.
 */
export function onStop(first: (signal: NodeJS.Signals) => void): () => void {
  let count = 0;
  const listener = (signal: NodeJS.Signals) => {
    if (count++ > 0) process.exit(130);
    first(signal);
  };
  for (const signal of signals) process.on(signal, listener);
  return () => {
    for (const signal of signals) process.off(signal, listener);
  };
}
