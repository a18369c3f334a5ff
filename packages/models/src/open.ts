import { attemptTimeoutMs, retryDelaysMs } from "./call-options.ts";
import { getModelFacts } from "./catalogue.ts";
import { Clients } from "./clients.ts";
import { DemoModel } from "./demo-model.ts";
import { openEndpoint } from "./endpoint.ts";
import type { OpenModel, RetryNotice } from "./model.ts";
import { PromptedTools } from "./prompted-tools/prompted-tools.ts";
import { type CallTimes, ProviderModel } from "./provider-model.ts";
import { Refusals } from "./refusals.ts";
import { withExtraHeaders } from "./request-fetch.ts";
import { resolveModel } from "./resolve.ts";
import { defaultRetryDelaysMs } from "./retry.ts";
import { SeenEndpoints } from "./seen-endpoints.ts";

export interface OpenModelOptions {
  /** Where providers' keys are looked up when the user stored none. */
  env: Readonly<Record<string, string | undefined>>;
  fetch?: typeof globalThis.fetch;
  /** For addresses that are `guarded`; default: `fetch`. */
  guardedFetch?: typeof globalThis.fetch;
  times?: Partial<CallTimes>;
  /** Called before each wait for another attempt, for logs. */
  onRetry?: (notice: RetryNotice) => void;
}

const defaultTimes: CallTimes = { retryDelays: defaultRetryDelaysMs, attempt: 300_000, idle: 120_000 };

/**
 * Creates the function that opens models by name: `demo/repair`, `provider/model`, a bare name, or
 * any name behind a base URL. Calls with a key of the server's environment cost what the catalogue
 * says, because the operator's budgets count them.
 */
export function createOpenModel(options: OpenModelOptions): OpenModel {
  const { env, fetch = globalThis.fetch, guardedFetch = fetch, times, onRetry } = options;
  const refusals = new Refusals();
  const known = new SeenEndpoints();
  const clients = new Clients();
  return (config) => {
    if (/^demo(\/|$)/.test(config.model.trim())) return new DemoModel(config.model.trim());
    const address = resolveModel(config, env);
    const options = config.options ?? {};
    const usual = { ...defaultTimes, ...times };
    const ownKey =
      (!address.apiKey && !address.aws?.access) ||
      Boolean(config.apiKey?.trim() || config.aws?.secretAccessKey);
    // Bedrock's client signs the body, so additional fields must be added before.
    const extras = address.wire === "bedrock" ? { ...options, extraBody: {} } : options;
    const given = withExtraHeaders(config.guarded ? guardedFetch : fetch, extras);
    const parts = [address, extras.headers, extras.extraBody, config.guarded === true];
    const endpoint = (marksCache: boolean) =>
      clients.of([...parts, marksCache], () => openEndpoint(address, given, { marksCache }));
    const model = new ProviderModel({
      address,
      endpoint,
      fetch: given,
      times: {
        ...usual,
        attempt: attemptTimeoutMs(usual.attempt, options),
        retryDelays: retryDelaysMs(usual.retryDelays, options),
      },
      options,
      trace: config.trace,
      facts: getModelFacts(
        options.knownAs ?? address.name,
        ownKey ? options : { contextWindow: options.contextWindow },
      ),
      refusals,
      known,
      ...(onRetry && { onRetry }),
    });
    return options.nativeTools === false
      ? new PromptedTools(model, { stops: options.stopWord !== false })
      : model;
  };
}
