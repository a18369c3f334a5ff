import { expect, test } from "vitest";
import { Clients } from "./clients.ts";
import { openEndpoint } from "./endpoint.ts";
import type { ModelAddress } from "./resolve.ts";

const address: ModelAddress = {
  ...{ name: "openai/small", provider: "openai", wire: "openai", modelId: "small" },
  ...{ baseUrl: "http://127.0.0.1:1/v1", apiKey: "sk-first" },
};

test("equal settings share a client; another key, header or address has its own client", () => {
  const clients = new Clients();
  const open = (own: Partial<ModelAddress>, headers?: Record<string, string>) =>
    clients.of([{ ...address, ...own }, headers], () => openEndpoint({ ...address, ...own }, fetch));
  const first = open({});
  expect(open({})).toBe(first);
  const others = [
    open({ apiKey: "sk-second" }),
    open({ apiKey: undefined }),
    open({ baseUrl: "http://127.0.0.1:2/v1" }),
    open({}, { "x-team": "a" }),
    open({}, { "x-team": "b" }),
  ];
  expect(new Set([first, ...others]).size).toBe(6);
});

test("a limited number of clients is kept", () => {
  const clients = new Clients();
  let made = 0;
  const open = (index: number) =>
    clients.of([index], () => {
      made++;
      return openEndpoint(address, fetch);
    });
  for (let index = 0; index < 60; index++) open(index);
  open(59);
  expect(made).toBe(60);
  open(0);
  expect(made).toBe(61);
});
