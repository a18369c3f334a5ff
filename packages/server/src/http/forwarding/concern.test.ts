import { expect, test } from "vitest";
import { startServer } from "../../../test/support/test-server.ts";
import { buildApp } from "../app.ts";
import { type ConcerningRoute, concernOf } from "./concern.ts";

/** Names of ids that say which sandbox a request concerns; an id of a snapshot does not say it. */
const tellingId =
  /^(?:sandbox|conversation|task|trajectory|parent_conversation|previous_response)_id(?:__eq)?$/;

/** The names of all fields in a schema. */
function namesIn(schema: unknown, found = new Set<string>()): Set<string> {
  if (schema === null || typeof schema !== "object") return found;
  const { properties, ...rest } = schema as { properties?: Record<string, unknown> };
  for (const [name, inner] of Object.entries(properties ?? {})) namesIn(inner, found.add(name));
  for (const inner of Object.values(rest)) namesIn(inner, found);
  return found;
}

test("each route that names a sandbox or a conversation says which node answers it", async () => {
  const server = await startServer();
  const app = buildApp(server);
  const unsaid: string[] = [];
  let routes = 0;
  app.addHook("onRoute", (route) => {
    const { url, method, schema, config, constraints } = route as ConcerningRoute & typeof route;
    const inUrl = [...url.matchAll(/:(\w+)/g)].map(([, name]) => name!);
    const names = [...inUrl, ...namesIn(schema?.querystring), ...namesIn(schema?.body)];
    const telling = names.filter((name) => tellingId.test(name));
    if (telling.length === 0) return;
    routes++;
    // The key of a caller of this route limits the caller to one sandbox.
    if (constraints && "view" in constraints) return;
    const inBody = [...namesIn(schema?.body)].some((name) => tellingId.test(name));
    const concern = concernOf({ url, config, schema });
    const isSaid = concern !== concernOf({ url: "/" });
    if (!isSaid || (inBody && !config?.concerns && !inUrl.some((name) => tellingId.test(name))))
      unsaid.push(`${method} ${url}: ${telling.join(", ")}`);
  });
  await app.ready();
  expect(unsaid).toEqual([]);
  expect(routes).toBeGreaterThan(100);
  await app.close();
  await server.close();
});
