import type { IncomingMessage, ServerResponse } from "node:http";
import type { SkillLibrary } from "@sandpiper/agent/skills/library/library";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { OpenModel } from "@sandpiper/models/model";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Egress } from "@sandpiper/sandbox/network/api";
import type { Bash } from "@sandpiper/sandbox/shell/commands/api";
import type { FastifyBaseLogger, FastifyInstance, FastifyTypeProvider, RawServerDefault } from "fastify";
import type { Static, TSchema } from "typebox";
import type { Callbacks } from "../../callbacks/api.ts";
import type { Config } from "../../config/config.ts";
import type { Conversations } from "../../conversations/api.ts";
import type { GitHosting } from "../../git/api.ts";
import type { Recordings } from "../../recording/export.ts";
import type { EventLog } from "../../store/event-log.ts";
import type {
  Acceptances,
  ApiKeys,
  CredentialSources,
  LoginLinks,
  Logins,
  Secrets,
  Settings,
} from "../../users/api.ts";
import type { EncryptedValues } from "../../users/encrypted-values.ts";
import type { ProviderAccessTokens } from "../../users/provider-access.ts";
import type { SandboxGrants } from "../../users/sandbox-grants.ts";
import type { ForwardingDeps } from "../forwarding/forwarding.ts";

/** Everything that routes and sockets use. */
export interface HttpServices {
  config: Config;
  settings: Settings;
  secrets: Secrets;
  encryptedValues: EncryptedValues;
  providerAccess: ProviderAccessTokens;
  apiKeys: ApiKeys;
  logins: Logins;
  loginLinks: LoginLinks;
  /** What other credentials were made from, and the credentials of sandboxes. */
  sources: CredentialSources;
  grants: SandboxGrants;
  acceptances: Acceptances;
  conversations: Conversations;
  recordings: Pick<Recordings, "export">;
  callbacks: Callbacks;
  skills: Pick<SkillLibrary, "getLoaded" | "list" | "preview">;
  sandboxes: Sandboxes;
  bash: Bash;
  egress: Pick<Egress, "decisions">;
  outbound: Outbound;
  openModel: OpenModel;
  git: GitHosting;
  events: EventLog;
  scheduler: EventLoopScheduler;
  /** Long reads run one at a time per user. */
  longReads: KeyedMutex;
  logger: FastifyBaseLogger;
  /** Set in a cluster: requests go to the nodes that own their sandboxes. */
  forwarding?: ForwardingDeps | undefined;
}

/** Types handlers by their TypeBox schemas. */
interface TypeBoxProvider extends FastifyTypeProvider {
  validator: this["schema"] extends TSchema ? Static<this["schema"]> : unknown;
  serializer: this["schema"] extends TSchema ? Static<this["schema"]> : unknown;
}

export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxProvider
>;
