import { createHash, createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { type ModelRequestSeen, reply } from "../../test/support/model-server.ts";
import { ask, failure, modelServers, wires } from "../../test/support/wires.ts";
import { createOpenModel } from "../open.ts";

const servers = modelServers();
const bedrock = wires.find(({ wire }) => wire === "bedrock")!;
const secret = "aws/secret+0123456789";

const hash = (data: string) => createHash("sha256").update(data).digest("hex");
const hmac = (key: string | Buffer, data: string) => createHmac("sha256", key).update(data).digest();

/** The signature that AWS would compute for a request, from AWS's own description of it. */
function signature({ headers, path, body }: ModelRequestSeen, secretKey: string): string {
  const [, scope, names] = /Credential=[^/]+\/([^,]+), ?SignedHeaders=([^,]+)/.exec(headers.authorization!)!;
  const [date, region, service, end] = scope!.split("/") as [string, string, string, string];
  const canonical = [
    "POST",
    path.split("/").map(encodeURIComponent).join("/"),
    "",
    ...names!.split(";").map((name) => `${name}:${String(headers[name]).trim()}`),
    "",
    names,
    hash(JSON.stringify(body)),
  ].join("\n");
  const text = ["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hash(canonical)].join("\n");
  const key = [region, service, end].reduce((key, part) => hmac(key, part), hmac(`AWS4${secretKey}`, date));
  return hmac(key, text).toString("hex");
}

test("requests are signed as AWS requires, for the region, with the session token", async () => {
  const aws = {
    accessKeyId: "AKIA",
    secretAccessKey: secret,
    sessionToken: "session-token",
    region: "eu-west-1",
  };
  const under = { ...bedrock, config: { apiKey: undefined, aws } };
  const model = await servers.open(under, [reply.text("Hi.")], { options: { extraBody: { top_k: 3 } } });
  await model.complete(ask());
  const [request] = servers.requests;
  expect(request!.path).toBe("/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream");
  const { authorization, "x-amz-security-token": token } = request!.headers;
  expect(authorization).toMatch(
    /^AWS4-HMAC-SHA256 Credential=AKIA\/\d{8}\/eu-west-1\/bedrock\/aws4_request, ?SignedHeaders=/,
  );
  expect(token).toBe("session-token");
  expect(authorization).toContain(`Signature=${signature(request!, secret)}`);
});

test("a Bedrock API key is sent as a bearer token, unsigned", async () => {
  const model = await servers.open({ ...bedrock, config: { apiKey: "bedrock-api-key" } }, [
    reply.text("Hi."),
  ]);
  await model.complete(ask());
  expect(servers.requests[0]!.headers.authorization).toBe("Bearer bedrock-api-key");
});

test("a token in the process's environment is never used instead of the configured access", async () => {
  process.env.AWS_BEARER_TOKEN_BEDROCK = "operators-token";
  try {
    const model = await servers.open(bedrock, [reply.text("Hi.")]);
    await model.complete(ask());
    expect(JSON.stringify(servers.requests[0]!.headers)).not.toContain("operators-token");
    expect(() => createOpenModel({ env: {} })({ model: bedrock.name })).toThrow("No key is configured");
  } finally {
    delete process.env.AWS_BEARER_TOKEN_BEDROCK;
  }
});

test("secrets that the endpoint echoes are removed from errors", async () => {
  const model = await servers.open(bedrock, () =>
    reply.error(403, { message: `signature of ${secret} does not match` }),
  );
  const error = await failure(model.complete(ask()));
  expect(error.message).toContain("signature of *** does not match");
  expect(`${error.stack} ${JSON.stringify(error)} ${error.cause}`).not.toContain(secret);
});
