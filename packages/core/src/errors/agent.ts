import type { ErrorTexts } from "./texts.ts";

export const agentErrors = {
  TooManyTabs: [
    "InvalidParameter",
    ({ max }: { max: number }) => `There are ${max} tabs already: close one first.`,
  ],
  BrowserMissing: [
    "BrowserUnavailable",
    "There is no browser in this sandbox. Its image needs Chromium or Chrome on the PATH (in Debian the package chromium).",
  ],
  BrowserNotStarted: [
    "BrowserUnavailable",
    ({ output }: { output: string }) =>
      `The browser did not start in the sandbox${output ? `: ${output}` : "."}`,
  ],
  BrowserSilent: ["BrowserUnavailable", "The browser in the sandbox started, but it does not answer."],
  PatchNotApplied: [
    "InvalidParameter",
    ({ reason }: { reason: string }) => `Nothing was changed: ${reason}.`,
  ],
  ToolUnknown: [
    "InvalidParameter",
    ({ name, known }: { name: string; known: string }) => `There is no tool ${name}: the tools are ${known}.`,
  ],
  ClientToolNameTaken: [
    "InvalidParameter",
    ({ name }: { name: string }) => `There is a tool ${name} already: name the client tool otherwise.`,
  ],
  ToolFilterInvalid: [
    "InvalidParameter",
    "filter_tools_regex is not a regular expression, or takes too long.",
  ],
  AnalyzerUnknown: [
    "InvalidParameter",
    ({ kind, maxMembers }: { kind: string; maxMembers: number }) =>
      `This server has no ${kind}, or not what is in it: choose LLMSecurityAnalyzer, PatternSecurityAnalyzer, PolicyRailSecurityAnalyzer, or EnsembleSecurityAnalyzer with up to ${maxMembers} of these.`,
  ],
  McpServerNameLength: [
    "InvalidParameter",
    ({ max }: { max: number }) => `The name of an MCP server has to have 1 to ${max} characters.`,
  ],
  McpServerTargetMissing: [
    "InvalidParameter",
    ({ name }: { name: string }) => `The MCP server ${JSON.stringify(name)} needs either a url or a command.`,
  ],
  McpServerUnusable: [
    "McpFailed",
    ({ name, reason }: { name: string; reason: string }) =>
      `The MCP server ${name} cannot be used: ${reason}`,
  ],
  McpServerNotStarted: [
    "McpFailed",
    ({ name, reason }: { name: string; reason: string }) =>
      `The MCP server ${name} cannot be started: ${reason}.`,
  ],
  McpServerTimeout: [
    "McpFailed",
    ({ seconds }: { seconds: number }) => `It did not answer within ${seconds} seconds.`,
  ],
  McpConnectionClosed: ["McpFailed", "The connection was closed."],
  McpServerFailed: ["McpFailed", ({ message }: { message: string }) => message],
  MarketplaceInvalid: [
    "InvalidParameter",
    ({ reason }: { reason: string }) => `The marketplace cannot be used: ${reason}.`,
  ],
  MarketplaceRefused: [
    "OutboundFailed",
    ({ host, status }: { host: string; status: number }) => `${host} answered ${status}.`,
  ],
  MarketplaceNotFound: [
    "OutboundFailed",
    ({ host }: { host: string }) => `${host} has no such public repository or version.`,
  ],
  ArchiveInvalid: [
    "OutboundFailed",
    ({ reason }: { reason: string }) => `The archive cannot be used: ${reason}.`,
  ],
  SkillsFolderUnreadable: [
    "ConfigInvalid",
    ({ reason }: { reason: string }) => `SANDPIPER_SKILLS cannot be read: ${reason}.`,
  ],
} as const satisfies ErrorTexts;
