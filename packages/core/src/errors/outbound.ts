import type { ErrorTexts } from "./texts.ts";

export const outboundErrors = {
  RedirectInvalid: [
    "OutboundRefused",
    ({ host }: { host: string }) => `${host} redirects to an invalid URL.`,
  ],
  RedirectLeavesTls: [
    "OutboundRefused",
    ({ host }: { host: string | number }) => `${host} redirects from https to http.`,
  ],
  RedirectTakesBody: [
    "OutboundRefused",
    ({ host }: { host: string | number }) => `${host} redirects the request's body to another origin.`,
  ],
  ResponseTooLong: [
    "OutboundFailed",
    ({ maxBytes }: { maxBytes: string | number }) => `The response is longer than ${maxBytes} bytes.`,
  ],
  ResponseEncodingUnsupported: [
    "OutboundFailed",
    "The response has an encoding that the request did not offer.",
  ],
  TooManyRedirects: [
    "OutboundRefused",
    ({ host, maxRedirects }: { host: string | number; maxRedirects: string | number }) =>
      `${host} redirects more than ${maxRedirects} times.`,
  ],
  AddressInvalid: ["OutboundRefused", "The address must begin with https:// or http:// and name a host."],
  AddressHasUserInfo: [
    "OutboundRefused",
    ({ host }: { host: string | number }) =>
      `The address of ${host} contains a user name or password: send it in a header.`,
  ],
  HostTimeout: ["OutboundFailed", ({ host }: { host: string | number }) => `${host} did not answer in time.`],
  RequestInvalid: ["OutboundRefused", "The request has a header or a method that HTTP does not allow."],
  HostUnreachable: [
    "OutboundFailed",
    ({ host, detail }: { host: string | number; detail: string | number }) =>
      `${host} could not be reached${detail}.`,
  ],
  AddressRangeInvalid: [
    "ConfigInvalid",
    ({ text }: { text: string | number }) =>
      `"${text}" is not an address range: write it like 10.1.0.0/16 or fd00::/8.`,
  ],
  HostUnknown: [
    "OutboundFailed",
    ({ host }: { host: string | number }) => `The host ${host} does not exist.`,
  ],
  AddressPrivate: [
    "OutboundRefused",
    ({ host }: { host: string | number }) =>
      `${host} is a private or reserved address: the operator can allow its range with SANDPIPER_OUTBOUND_PRIVATE.`,
  ],
} as const satisfies ErrorTexts;
