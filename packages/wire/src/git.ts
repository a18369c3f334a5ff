import { StringEnum } from "./schema.ts";

/** Services that host repositories (app-server.md section 2.1). */
export const providerTypes = [
  "github",
  "gitlab",
  "bitbucket",
  "bitbucket_data_center",
  "forgejo",
  "azure_devops",
  "enterprise_sso",
] as const;
export const ProviderType = StringEnum(providerTypes);
export type ProviderType = (typeof providerTypes)[number];
