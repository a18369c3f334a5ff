import { type Static, Type } from "typebox";
import { Nullable, Page } from "../common/schema.ts";
import { MarketplaceRegistration } from "./settings-v1.ts";

/** A skill in a list (app-server.md section 7). */
export const SkillInfo = Type.Object({
  name: Type.String(),
  type: Type.String({ description: "repo, knowledge or agentskills" }),
  source: Type.String({
    description: "global: of this server; user: of a marketplace that the user registered",
  }),
  triggers: Nullable(Type.Array(Type.String())),
});

export const SkillPage = Page(SkillInfo);

export const MarketplacePluginPreview = Type.Object({
  name: Type.String(),
  description: Nullable(Type.String()),
  source: Type.String(),
  marketplace: Type.String(),
});

/** Body of `POST /api/v1/skills/marketplace-skills`. */
export const MarketplaceRegistrations = Type.Array(MarketplaceRegistration, { maxItems: 20 });

/** The content of marketplaces; `errors` has a sentence for each unreadable one. */
export const MarketplaceSkillsPreviewResponse = Type.Object({
  skills: Type.Array(SkillInfo),
  plugins: Type.Array(MarketplacePluginPreview),
  marketplace_skills: Type.Record(Type.String(), Type.Array(Type.String())),
  errors: Type.Array(Type.String()),
});

export type SkillInfo = Static<typeof SkillInfo>;
export type MarketplacePluginPreview = Static<typeof MarketplacePluginPreview>;
export type MarketplaceSkillsPreviewResponse = Static<typeof MarketplaceSkillsPreviewResponse>;
