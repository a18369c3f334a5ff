import type { ErrorTexts } from "./texts.ts";

export const outboundErrors = {
  OutboundRefused: {
    RedirectInvalid: "{host} redirects to an invalid URL.",
    RedirectLeavesTls: "{host} redirects from https to http.",
    RedirectTakesBody: "{host} redirects the request's body to another origin.",
    TooManyRedirects: "{host} redirects more than {maxRedirects} times.",
    AddressInvalid: "The address must begin with https:// or http:// and name a host.",
    AddressHasUserInfo: "The address of {host} contains a user name or password: send it in a header.",
    RequestInvalid: "The request has a header or a method that HTTP does not allow.",
    PolicyRefused: "{refusal}",
    NoNetwork: "{host} is not asked: a replay makes no requests of its own.",
    AddressPrivate:
      "{host} is a private or reserved address: the operator can allow its range with SANDPIPER_OUTBOUND_PRIVATE.",
  },
  OutboundFailed: {
    ResponseTooLong: "The response is longer than {maxBytes} bytes.",
    ResponseEncodingUnsupported: "The response has an encoding that the request did not offer.",
    HostTimeout: "{host} did not answer in time.",
    HostUnreachable: "{host} could not be reached{detail}.",
    HostUnknown: "The host {host} does not exist.",
    HostUnresolved: "The name {host} could not be resolved ({reason}).",
    PortSilent: "{host} does not answer on port {port}.",
    PortUnreached: "{host} cannot be reached on port {port} ({reason}).",
  },
  ConfigInvalid: {
    AddressRangeInvalid: '"{text}" is not an address range: write it like 10.1.0.0/16 or fd00::/8.',
  },
} as const satisfies ErrorTexts;
