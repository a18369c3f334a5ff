import { PlatformError } from "@sandpiper/core/errors";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import { afterAll, beforeAll, expect, test } from "vitest";
import { forgejoToken, serveForgejo } from "../../test/support/git-services/forgejo.ts";
import { githubToken, serveGithub } from "../../test/support/git-services/github.ts";
import type { ProviderServer } from "../../test/support/git-services/serve.ts";
import { GitHostingService } from "./hosting.ts";

const asked: string[] = [];
const resolve = async (host: string) => {
  asked.push(host);
  return host === "git.inside.example" ? ["127.0.0.1"] : ["93.184.216.34"];
};
const outbound = createOutbound({ allowPrivate: ["127.0.0.1"], resolve });
const closed = createOutbound({ allowPrivate: [], resolve });
const secrets = { providers: async () => new Map() };
const git = new GitHostingService({ secrets, outbound });
let github: ProviderServer;
let forgejo: ProviderServer;
beforeAll(async () => {
  [github, forgejo] = [await serveGithub(), await serveForgejo()];
});
afterAll(async () => {
  github.close();
  forgejo.close();
  await outbound.close();
  await closed.close();
});

async function refusal(work: Promise<unknown>): Promise<PlatformError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(PlatformError);
  return error as PlatformError;
}

test("a token is checked at its host before it is stored; a wrong token gets the documented error", async () => {
  await git.checkToken("github", { token: githubToken, host: github.host });
  await git.checkToken("forgejo", {
    token: forgejoToken,
    host: forgejo.host.replace("127.0.0.1", "git.inside.example"),
  });
  const { code, message } = await refusal(
    git.checkToken("github", { token: "ghp_wrong", host: github.host }),
  );
  expect([code, message]).toEqual([
    "ProviderTokenInvalid",
    "Invalid token. Please make sure it is a valid github token.",
  ]);
  github.refusal = { status: 404, body: "no such page" };
  const { status, message: sentence } = await refusal(
    git.checkToken("github", { token: githubToken, host: github.host }),
  );
  expect([status, sentence]).toEqual([502, expect.stringContaining("check the host")]);
});

test("a token is never sent to a private address that is not allowed, nor unencrypted to a public address", async () => {
  github.asked.length = 0;
  const guarded = new GitHostingService({ secrets, outbound: closed });
  const port = github.host.split(":").at(-1);
  const hosts = [
    github.host,
    `127.0.0.1:${port}`,
    `http://git.inside.example:${port}`,
    "169.254.169.254",
    "[::1]",
  ];
  for (const host of hosts) {
    const { code } = await refusal(guarded.checkToken("gitlab", { token: "secret-of-the-user", host }));
    expect([host, code]).toEqual([host, "OutboundRefused"]);
  }
  expect(
    (await refusal(git.checkToken("gitlab", { token: "secret-of-the-user", host: "http://public.example" })))
      .code,
  ).toBe("OutboundRefused");
  expect(github.asked).toEqual([]);
});

test("invalid hosts, and tokens that do not fit into a header, are refused without an echo of the token", async () => {
  for (const host of [
    "a b",
    "x@y",
    "u:p@127.0.0.1",
    "ftp://x",
    "a?b",
    "#",
    "[",
    "a:99999999",
    "x".repeat(400),
  ]) {
    const { status } = await refusal(git.checkToken("github", { token: "secret-of-the-user", host }));
    expect([host, status >= 400 && status < 500]).toEqual([host, true]);
  }
  for (const token of ["secret\r\nx: 1", "secret\0", "geheimnis-ü-☃"]) {
    const { status, message } = await refusal(git.checkToken("github", { token, host: github.host }));
    expect([token, status < 500, message.includes("secret")]).toEqual([token, true, false]);
  }
});
