import { expect, test } from "vitest";
import { agentErrors } from "./agent.ts";
import { catalogue } from "./catalogue.ts";
import { conversationsErrors } from "./conversations.ts";
import { driversErrors } from "./drivers.ts";
import { gitErrors } from "./git.ts";
import { httpErrors } from "./http.ts";
import { modelsErrors } from "./models.ts";
import { outboundErrors } from "./outbound.ts";
import { sandboxesErrors } from "./sandboxes.ts";
import { storeErrors } from "./store.ts";
import { usersErrors } from "./users.ts";

test("each key belongs to one area, so that no area replaces another's text", () => {
  const areas = [
    agentErrors,
    conversationsErrors,
    driversErrors,
    gitErrors,
    httpErrors,
    modelsErrors,
    outboundErrors,
    sandboxesErrors,
    storeErrors,
    usersErrors,
  ];
  const keys = areas.flatMap((area) => Object.keys(area)).sort();
  expect(keys).toEqual(Object.keys(catalogue).sort());
});
