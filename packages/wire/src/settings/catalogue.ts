import { type Static, Type } from "typebox";
import { Nullable, Page } from "../common/schema.ts";

/** A model that the server knows (app-server.md section 7). Settings name it `provider/name`. */
export const LLMModel = Type.Object({
  provider: Nullable(Type.String()),
  name: Type.String(),
  verified: Type.Boolean({ default: false, description: "reached by its maker's own protocol" }),
  hidden: Type.Boolean({ default: false, description: "not meant for lists of choices" }),
  canonical: Nullable(Type.String({ description: "the model that this is another name of" })),
});

/** A service that models are reached at. */
export const LLMProvider = Type.Object({ name: Type.String(), verified: Type.Boolean({ default: false }) });

export const LLMModelPage = Page(LLMModel);
export const ProviderPage = Page(LLMProvider);

export type LLMModel = Static<typeof LLMModel>;
export type LLMProvider = Static<typeof LLMProvider>;
