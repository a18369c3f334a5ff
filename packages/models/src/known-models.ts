import type { LLMModel, LLMProvider } from "@sandpiper/wire";
import { cataloguedNames } from "./catalogue.ts";
import { guessProvider, providers } from "./providers.ts";

/** Providers with a protocol of their own; the others speak OpenAI's. */
const verified = new Set(["openai", "anthropic", "gemini", "bedrock"]);

/**
 * All models with a known price and context window by their provider, and the built-in demo model.
 */
export const knownModels: readonly LLMModel[] = [
  ...cataloguedNames.map((name) => {
    const provider = guessProvider(name) ?? null;
    return {
      provider,
      name,
      verified: provider !== null && verified.has(provider),
      hidden: false,
      canonical: null,
    };
  }),
  { provider: "demo", name: "repair", verified: false, hidden: true, canonical: null },
];

/** Every provider that models can be reached at, the verified ones first. */
export const knownProviders: readonly LLMProvider[] = Object.keys(providers)
  // Another name of `gemini`.
  .filter((name) => name !== "google")
  .map((name) => ({ name, verified: verified.has(name) }))
  .sort((a, b) => Number(b.verified) - Number(a.verified));
