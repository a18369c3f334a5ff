import { PlatformError } from "@sandpiper/core/errors";
import { isoTime, LoginAnswer, LoginRequest, Success } from "@sandpiper/wire";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { platformVersion } from "../../../../config/version.ts";
import type { KeyHolder } from "../../../../users/api.ts";
import { createdBy } from "../../../../users/default-user.ts";
import { toClientNetwork } from "../../../server/limits/request-limit.ts";
import { TokenBucketLimiter } from "../../../server/limits/token-bucket-limiter.ts";
import { makeRoute } from "../../../server/make-route.ts";
import { makeIsSecure } from "../../../server/secure-scheme.ts";
import type { App, HttpServices } from "../../../server/services.ts";
import { makeClearingCookies, makeLoginCookie, parseLoginTokens } from "./cookie.ts";
import { linkPageHeaders, pageHeaders, renderLoginPage, renderStartPage, renderWelcomePage } from "./page.ts";
import { isFromOwnPage } from "./same-origin.ts";

/** Failed logins per address: ten at once, then ten per minute. */
const failedLogins = { perSecond: 1 / 6, burst: 10 };

/** Maximum body, bytes; small, because callers have no key yet. */
const maxBodyBytes = 8_192;

const formType = "application/x-www-form-urlencoded";

type LoginServices = Pick<HttpServices, "apiKeys" | "logins" | "loginLinks" | "config">;

/**
 * Exchanges an API key, or a link that works once, for a cookie, so that browsers need no header;
 * an addition to the contract.
 */
export function loginRoutes(app: App, services: LoginServices): void {
  // Only these routes parse forms.
  app.register(async (scope) => {
    scope.addContentTypeParser<string>(formType, { parseAs: "string" }, (_request, text, done) => {
      done(null, Object.fromEntries(new URLSearchParams(text)));
    });
    registerRoutes(scope as App, services);
  });
}

function registerRoutes(app: App, { apiKeys, logins, loginLinks, config }: LoginServices): void {
  const route = makeRoute(["login"]);
  const failures = new TokenBucketLimiter(failedLogins);
  const isSecure = makeIsSecure(config);
  const tokensOf = ({ raw }: FastifyRequest) => parseLoginTokens(raw.headers.cookie, isSecure(raw));
  const holderOf = async (request: FastifyRequest): Promise<KeyHolder | undefined> => {
    for (const token of tokensOf(request)) {
      const holder = await logins.authenticate(token);
      if (holder) return holder;
    }
    return undefined;
  };

  /**
   * Checks the key or the link of a login. Wrong ones of an address never refuse right ones: the
   * check costs the same for each, and a random key cannot be guessed. Throws Unauthorized,
   * TooManyRequests.
   */
  const authenticate = async (
    body: Static<typeof LoginRequest>,
    request: FastifyRequest,
  ): Promise<KeyHolder> => {
    const byLink = "link" in body;
    const holder = await (byLink ? loginLinks.redeem(body.link) : apiKeys.authenticate(body.key.trim()));
    if (holder) return holder;
    const wait = failures.take(toClientNetwork(request.ip));
    if (wait > 0) throw new PlatformError("TooManyWrongKeys", { retryAfter: wait });
    throw new PlatformError(byLink ? "LoginLinkEnded" : "KeyInvalid");
  };

  /**
   * Rejects login and logout from other sites' pages; non-browsers send no origin. Throws
   * CrossOrigin.
   */
  const checkOrigin = ({ method, headers, raw }: FastifyRequest): void => {
    const silent = headers["sec-fetch-site"] === undefined && headers.origin === undefined;
    const { publicUrl } = config;
    if (silent || isFromOwnPage({ method, headers, publicUrl, secure: isSecure(raw), upgrading: false }))
      return;
    throw new PlatformError("LoginNotFromOwnPage");
  };

  const logIn = async (holder: KeyHolder, request: FastifyRequest, reply: FastifyReply): Promise<number> => {
    await endLogins(request);
    const { token, expiresAt } = await logins.begin(holder);
    reply.header("set-cookie", makeLoginCookie(token, isSecure(request.raw), expiresAt));
    return expiresAt;
  };

  const endLogins = async (request: FastifyRequest): Promise<void> => {
    for (const token of tokensOf(request)) await logins.end(token);
  };

  app.get("/", { config: { access: "public" }, schema: { hide: true } as object }, async (request, reply) => {
    // Only a browser asks for a page: programs get what they got before there was one.
    if (!/\btext\/html\b/.test(request.headers.accept ?? "")) {
      return reply.code(404).send({ detail: "Not Found" });
    }
    sendPage(reply, 200, renderStartPage(platformVersion, await holderOf(request)));
    return reply;
  });
  app.get(
    "/login",
    route(
      "A page that exchanges an API key for a cookie",
      {
        produces: ["text/html"],
        querystring: Type.Object({
          next: Type.Optional(Type.String({ description: "path on this server where the login goes on" })),
        }),
        response: { 200: Type.String() },
      },
      { access: "public" },
    ),
    async (request, reply) => {
      const holder = await holderOf(request);
      const next = toOwnPath(request.query.next);
      const page = holder
        ? renderWelcomePage(holder.userId, holder.readOnly, next)
        : renderLoginPage({ ...(next && { next }) });
      sendPage(reply, 200, page, linkPageHeaders);
      return reply;
    },
  );
  app.post(
    "/login",
    {
      bodyLimit: maxBodyBytes,
      ...route(
        "Exchange an API key or a login link for a login cookie; a form gets a page, JSON gets JSON",
        {
          consumes: ["application/json", formType],
          failuresAsPage: [401, 429],
          body: LoginRequest,
          response: { 200: LoginAnswer, 303: Type.Null({ description: "Redirects to the page" }) },
        },
        { access: "public", failures: [401, 403, 429, 507] },
      ),
    },
    async (request, reply) => {
      checkOrigin(request);
      const byForm = request.headers["content-type"]?.startsWith(formType) === true;
      const next = toOwnPath(request.body.next);
      try {
        const holder = await authenticate(request.body, request);
        const expiresAt = await logIn(holder, request, reply);
        if (byForm) return redirectToPage(reply, next);
        return reply.send({
          user: createdBy(holder.userId),
          read_only: holder.readOnly,
          expires_at: isoTime(expiresAt),
        });
      } catch (error) {
        if (!byForm || !(error instanceof PlatformError) || error.status >= 500) throw error;
        if (error.retryAfter !== undefined) reply.header("retry-after", Math.ceil(error.retryAfter));
        return sendPage(
          reply,
          error.status,
          renderLoginPage({ ...(next && { next }), problem: error.message }),
          linkPageHeaders,
        );
      }
    },
  );
  app.post(
    "/logout",
    {
      bodyLimit: maxBodyBytes,
      ...route(
        "Log out and delete the cookie",
        { response: { 200: Success, 303: Type.Null({ description: "Redirects to the page" }) } },
        { access: "public", failures: [403, 413, 507] },
      ),
    },
    async (request, reply) => {
      checkOrigin(request);
      await endLogins(request);
      reply.header("set-cookie", makeClearingCookies());
      if (request.headers["content-type"]?.startsWith(formType)) return redirectToPage(reply);
      return reply.send({ success: true });
    },
  );
}

/** `reply` is typed by one of its schema's statuses. */
function sendPage(
  reply: unknown,
  status: number,
  html: string,
  headers: Readonly<Record<string, string>> = pageHeaders,
): FastifyReply {
  return (reply as FastifyReply).code(status).headers(headers).send(html);
}

/** Redirects to a page after a form, so that a reload does not submit it again. */
function redirectToPage(reply: unknown, path = "/"): FastifyReply {
  return (reply as FastifyReply).code(303).header("location", `.${path}`).send();
}

/** A path on this server. Undefined for a text that could lead elsewhere. */
function toOwnPath(text: string | undefined): string | undefined {
  return text !== undefined && /^\/(?![/\\])[\x21-\x7e]{0,2000}$/.test(text) ? text : undefined;
}
