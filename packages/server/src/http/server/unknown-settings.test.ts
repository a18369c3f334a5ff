import * as closest from "@sandpiper/core/closest-name";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { expect, test, vi } from "vitest";
import { refuseUnknownSettings } from "./unknown-settings.ts";

vi.mock("@sandpiper/core/closest-name", { spy: true });

test("of thousands of unknown settings only those that the answer names are compared with known ones", async () => {
  const refuse = refuseUnknownSettings(Type.Object({ llm_model: Type.String() }));
  const body = Object.fromEntries(Array.from({ length: 8_000 }, (_, index) => [`llm_mode${index}`, 1]));
  const refused = refuse.call({} as never, { body } as FastifyRequest, {} as FastifyReply);
  await expect(refused).rejects.toMatchObject({ issues: { length: 10 } });
  expect(closest.findClosestName).toHaveBeenCalledTimes(10);
});
