import { DemoModel } from "./demo/demo-model.ts";
import { openEndpoint } from "./endpoint.ts";
import type { OpenModel, RetryNotice } from "./model.ts";
import { type CallTimes, ProviderModel } from "./provider-model.ts";
import { resolveModel } from "./resolve.ts";
import { defaultRetryDelaysMs } from "./retry.ts";

export interface OpenModelOptions {
  /** Where providers' keys are looked up when the user stored none. */
  env: Readonly<Record<string, string | undefined>>;
  fetch?: typeof globalThis.fetch;
  /** For addresses that are `guarded`; default: `fetch`. */
  guardedFetch?: typeof globalThis.fetch;
  times?: Partial<CallTimes>;
  /** Told before each wait for another attempt, for logs. */
  onRetry?: (notice: RetryNotice) => void;
}

const defaultTimes: CallTimes = { retryDelays: defaultRetryDelaysMs, attempt: 300_000, idle: 120_000 };

/** Makes the function that opens models by name: `demo/repair`, `provider/model`, a bare name, or any name behind a base URL. */
export function makeOpenModel(options: OpenModelOptions): OpenModel {
  const { env, fetch = globalThis.fetch, guardedFetch = fetch, times, onRetry } = options;
  return (config) => {
    if (/^demo(\/|$)/.test(config.model.trim())) return new DemoModel(config.model.trim());
    const address = resolveModel(config, env);
    return new ProviderModel(
      address,
      openEndpoint(address, config.guarded ? guardedFetch : fetch),
      { ...defaultTimes, ...times },
      onRetry,
    );
  };
}
