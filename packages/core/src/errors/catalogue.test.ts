import { statuses } from "@sandpiper/wire/common/error-codes";
import { expect, test } from "vitest";
import { PlatformError } from "../errors.ts";
import { areas, catalogue } from "./catalogue.ts";

test("each key has one text and a code with a status", () => {
  const keys = areas.flatMap((area) => Object.values(area).flatMap((texts) => Object.keys(texts)));
  expect(keys.sort()).toEqual([...catalogue.keys()].sort());
  for (const [code] of catalogue.values()) expect(statuses).toHaveProperty(code);
});

test("parameters fill a text, and each other value stays as it is", () => {
  const error = new PlatformError("HostUnreachable", { host: "a.test", detail: " {host}" });
  expect(error).toMatchObject({
    code: "OutboundFailed",
    status: 502,
    message: "a.test could not be reached {host}.",
  });
});
