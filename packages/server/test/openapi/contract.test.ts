import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { read, startServer, type TestServer } from "../support/test-server.ts";
import { additions, agentServer, agentServerInside, appServer, legacyV0 } from "./deliberate-differences.ts";
import { findAdditions, findDifferences, unlisted } from "./differences.ts";
import { type Document, extractFacts, type Facts } from "./facts.ts";

let server: TestServer;
let ours: Facts;

beforeAll(async () => {
  server = await startServer();
  ours = extractFacts((await read(server.call("GET", "/openapi.json", { key: null }))).body);
});
afterAll(() => server.close());

const references = { "app-server": appServer, "legacy-v0": legacyV0, "agent-server": agentServer };

function contract(name: string): Facts {
  const document = new URL(`../../../../docs/contract/openapi/${name}.json`, import.meta.url);
  return extractFacts(JSON.parse(readFileSync(document, "utf8")) as Document);
}

describe.each(Object.entries(references))(
  "the OpenAPI document compared with the reference's %s",
  (name, list) => {
    const theirs = contract(name);

    test("has the same paths, parameters, required fields and enums, except for the listed differences", () => {
      // The platform's document has only the agent-server routes that users' keys open at the root.
      const wanted =
        name === "agent-server"
          ? Object.fromEntries(Object.entries(theirs).filter(([key]) => key in ours))
          : theirs;
      expect(unlisted(findDifferences(ours, wanted), list)).toEqual({ differences: [], outdated: [] });
    });
  },
);

test("the agent-server document has everything that the reference's agent server has, except for the listed differences", async () => {
  const { id } = server.sandboxes.add();
  const inside = extractFacts(
    (await read(server.call("GET", `/agent/${id}/openapi.json`, { key: null }))).body,
  );
  const left = unlisted(findDifferences(inside, contract("agent-server")), agentServer).differences;
  expect(unlisted(left, agentServerInside)).toEqual({ differences: [], outdated: [] });
});

test("has no path besides the reference's and the listed additions", () => {
  const facts = Object.keys(references).map((name) => contract(name));
  expect(unlisted(findAdditions(ours, facts), additions)).toEqual({ differences: [], outdated: [] });
});

test("a difference is found wherever it stands", () => {
  const facts = (change: object = {}) => ({
    "GET /a": {
      parameters: { "query limit": {} },
      body: { kind: { enum: ["a", "b"] } },
      answer: { "items[].id": {} },
      ...change,
    },
  });
  expect(findDifferences(facts(), facts())).toEqual([]);
  expect(findDifferences({}, facts())).toEqual(["GET /a: missing"]);
  expect(findDifferences(facts({ parameters: { "query limit": { required: true } } }), facts())).toEqual([
    "GET /a: query limit: required",
  ]);
  expect(findDifferences(facts({ body: { kind: { enum: ["a", "c"] } } }), facts())).toEqual([
    "GET /a: body kind: without b",
    "GET /a: body kind: also c",
  ]);
  expect(findDifferences(facts({ answer: {} }), facts())).toEqual(["GET /a: answer items[].id: missing"]);
  expect(findDifferences(facts({ answer: { "items[].id": { required: true } } }), facts())).toEqual([]);
  expect(unlisted(["GET /a: x: missing"], [["GET /*: x: missing", ""]])).toEqual({
    differences: [],
    outdated: [],
  });
  expect(unlisted([], [["GET /b: missing", ""]])).toEqual({ differences: [], outdated: ["GET /b: missing"] });
});
