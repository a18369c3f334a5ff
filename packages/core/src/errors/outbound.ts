import type { ErrorTexts } from "./texts.ts";

export const outboundErrors = {
  RedirectInvalid: [
    "OutboundRefused",
    ({ host }: { host: string }) => `${host} redirects to an invalid URL.`,
  ],
} as const satisfies ErrorTexts;
