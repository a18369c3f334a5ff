import { PlatformError } from "@sandpiper/core/errors";
import { isoTime, LoginAnswer, LoginRequest, Success } from "@sandpiper/wire";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { KeyHolder } from "../../../../users/api.ts";
import { createdBy } from "../../../../users/default-user.ts";
import { toClientNetwork } from "../../../server/limits/request-limit.ts";
import { TokenBucketLimiter } from "../../../server/limits/token-bucket-limiter.ts";
import type { App, HttpServices } from "../../../server/services.ts";
import { clearedCookies, isSecure, loginCookie, loginTokens } from "./cookie.ts";
import { loginPage, pageHeaders, welcomePage } from "./page.ts";
import { fromOwnPage } from "./same-origin.ts";

/** Failed logins of one address: ten at once, then ten a minute. */
const failedLogins = { perSecond: 1 / 6, burst: 10 };

/** Largest body, bytes: whoever has no key yet may not make the server hold more. */
const bodyLimit = 8_192;

const formType = "application/x-www-form-urlencoded";

/** Exchanges an API key for a cookie, so that a browser's requests and sockets need no header; an addition to the contract. */
export function loginRoutes(app: App, services: Pick<HttpServices, "apiKeys" | "logins" | "config">): void {
  // Forms are read here alone: routes elsewhere take JSON.
  app.register(async (scope) => {
    scope.addContentTypeParser<string>(formType, { parseAs: "string" }, (_request, text, done) => {
      done(null, Object.fromEntries(new URLSearchParams(text)));
    });
    routes(scope as App, services);
  });
}

function routes(
  app: App,
  { apiKeys, logins, config }: Pick<HttpServices, "apiKeys" | "logins" | "config">,
): void {
  const tags = ["login"];
  const failures = new TokenBucketLimiter(failedLogins);
  const holderOf = ({ headers }: FastifyRequest): KeyHolder | undefined =>
    loginTokens(headers.cookie)
      .map((token) => logins.authenticate(token))
      .find((holder) => holder !== undefined);

  /** Takes the key of a login. Throws Unauthorized, TooManyRequests. */
  const authenticate = (key: string, request: FastifyRequest): KeyHolder => {
    const address = toClientNetwork(request.ip);
    const wait = failures.peek(address);
    if (wait > 0)
      throw new PlatformError("TooManyRequests", "Too many wrong keys: wait and try again.", {
        retryAfter: wait,
      });
    const holder = apiKeys.authenticate(key.trim());
    if (holder) return holder;
    failures.take(address);
    throw new PlatformError("Unauthorized", "This key is unknown, revoked or expired.");
  };

  const logIn = async (holder: KeyHolder, request: FastifyRequest, reply: FastifyReply): Promise<number> => {
    await endLogins(request);
    const { token, expiresAt } = await logins.begin(holder);
    const secure = isSecure({ protocol: request.protocol, publicUrl: config.publicUrl });
    reply.header("set-cookie", loginCookie(token, secure, expiresAt)).header("cache-control", "no-store");
    return expiresAt;
  };

  const endLogins = async ({ headers }: FastifyRequest): Promise<void> => {
    for (const token of loginTokens(headers.cookie)) await logins.end(token);
  };

  app.get(
    "/login",
    {
      config: { access: "public" },
      schema: {
        tags,
        summary: "A page that exchanges an API key for a cookie",
        produces: ["text/html"],
        response: { 200: Type.String() },
      },
    },
    (request, reply) => {
      const holder = holderOf(request);
      sendPage(reply, 200, holder ? welcomePage(holder.userId, holder.readOnly) : loginPage());
    },
  );
  app.post(
    "/login",
    {
      config: { access: "public", failures: [401, 403, 429, 507] },
      bodyLimit,
      schema: {
        tags,
        summary: "Exchange an API key for a login cookie; a form gets a page, JSON gets JSON",
        consumes: ["application/json", formType],
        body: LoginRequest,
        response: { 200: LoginAnswer, 303: Type.Null({ description: "The browser goes on to the page" }) },
      },
    },
    async (request, reply) => {
      checkOrigin(request, config.publicUrl);
      const byForm = request.headers["content-type"]?.startsWith(formType) === true;
      try {
        const holder = authenticate(request.body.key, request);
        const expiresAt = await logIn(holder, request, reply);
        if (byForm) return toPage(reply);
        return reply.send({
          user: createdBy(holder.userId),
          read_only: holder.readOnly,
          expires_at: isoTime(expiresAt),
        });
      } catch (error) {
        if (!byForm || !(error instanceof PlatformError) || error.status >= 500) throw error;
        if (error.retryAfter !== undefined) reply.header("retry-after", Math.ceil(error.retryAfter));
        return sendPage(reply, error.status, loginPage(error.message));
      }
    },
  );
  app.post(
    "/logout",
    {
      config: { access: "public", failures: [403, 413, 507] },
      bodyLimit,
      schema: {
        tags,
        summary: "End the login and take its cookie away",
        response: { 200: Success, 303: Type.Null({ description: "The browser goes back to the page" }) },
      },
    },
    async (request, reply) => {
      checkOrigin(request, config.publicUrl);
      await endLogins(request);
      reply.header("set-cookie", clearedCookies()).header("cache-control", "no-store");
      if (request.headers["content-type"]?.startsWith(formType)) return toPage(reply);
      return reply.send({ success: true });
    },
  );
}

/** `reply` is one of whatever statuses its schema names. */
function sendPage(reply: unknown, status: number, html: string): FastifyReply {
  return (reply as FastifyReply).code(status).headers(pageHeaders).send(html);
}

/** After a form, so that loading the page again does not send it again. */
function toPage(reply: unknown): FastifyReply {
  return (reply as FastifyReply).code(303).header("location", "login").send();
}

/** Another site's page may neither log a browser in nor out; programs that are no browsers say nothing of where they are. Throws CrossOrigin. */
function checkOrigin({ method, headers }: FastifyRequest, publicUrl: string | undefined): void {
  const silent = headers["sec-fetch-site"] === undefined && headers.origin === undefined;
  if (silent || fromOwnPage({ method, headers, publicUrl, upgrading: false })) return;
  throw new PlatformError("CrossOrigin", "A login begins and ends on this server's own page.");
}
