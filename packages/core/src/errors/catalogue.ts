import { agentErrors } from "./agent.ts";
import { conversationsErrors } from "./conversations.ts";
import { driversErrors } from "./drivers.ts";
import { gitErrors } from "./git.ts";
import { httpErrors } from "./http.ts";
import { modelsErrors } from "./models.ts";
import { outboundErrors } from "./outbound.ts";
import { sandboxesErrors } from "./sandboxes.ts";
import { storeErrors } from "./store.ts";
import { usersErrors } from "./users.ts";

/** Every error that callers may see. */
export const catalogue = {
  ...sandboxesErrors,
  ...driversErrors,
  ...conversationsErrors,
  ...agentErrors,
  ...modelsErrors,
  ...usersErrors,
  ...gitErrors,
  ...httpErrors,
  ...outboundErrors,
  ...storeErrors,
} as const;

export type ErrorKey = keyof typeof catalogue;
