import type { MarketplaceRegistration } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { resolvePluginRef } from "./plugin-ref.ts";

const acme = {
  name: "acme",
  source: "github:acme/market",
  ref: "v1",
  repo_path: "pack",
} as MarketplaceRegistration;
const other = { name: "other", source: "other/market" } as MarketplaceRegistration;
/** The library's marketplaces: `other` is unreadable. */
const library = {
  preview: async (registrations: readonly MarketplaceRegistration[]) => ({
    skills: [],
    marketplace_skills: {},
    plugins: registrations.includes(acme)
      ? [
          { name: "fmt", description: null, source: "./plugins/fmt", marketplace: "acme" },
          { name: "away", description: null, source: "github:else/where", marketplace: "acme" },
        ]
      : [],
    errors: registrations.includes(other) ? ["other: It could not be read."] : [],
  }),
};
const read = (text: string) => resolvePluginRef(text, [acme, other], library);

test("a name is looked up in the registered marketplaces; anything else is a source", async () => {
  const fmt = { source: "github:acme/market", ref: "v1", repo_path: "pack/plugins/fmt" };
  expect(await read("fmt@acme")).toEqual(fmt);
  expect(await read(" fmt ")).toEqual(fmt);
  expect(await read("away@acme")).toEqual({ source: "github:else/where" });
  expect(await read("github:a/b")).toEqual({ source: "github:a/b" });
  expect(await read("a/b")).toEqual({ source: "a/b" });
});

test.each([
  ["fmt@nowhere", /no marketplace nowhere/],
  ["none@acme", /no plugin none/],
  ["fmt@other", /other: It could not be read/],
])("%s is not found, with the reason", async (text, reason) => {
  await expect(read(text)).rejects.toMatchObject({
    code: "PluginNotFound",
    message: expect.stringMatching(reason),
  });
});

test("without marketplaces a name is not found", async () => {
  await expect(resolvePluginRef("fmt", [], library)).rejects.toMatchObject({ code: "PluginNotFound" });
});
