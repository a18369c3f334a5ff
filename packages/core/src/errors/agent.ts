import type { ErrorTexts } from "./texts.ts";

export const agentErrors = {
  InvalidParameter: {
    TooManyTabs: "There are {max} tabs already: close one first.",
    PatchNotApplied: "Nothing was changed: {reason}.",
    ToolUnknown: "There is no tool {name}: the tools are {known}.",
    ClientToolNameTaken: "There is a tool {name} already: name the client tool otherwise.",
    ToolFilterInvalid: "filter_tools_regex is not a regular expression, or takes too long.",
    AnalyzerUnknown:
      "The analyzer {kind} is unknown or contains an unknown analyzer: choose LLMSecurityAnalyzer, PatternSecurityAnalyzer, PolicyRailSecurityAnalyzer, or EnsembleSecurityAnalyzer with up to {maxMembers} of these.",
    McpServerNameLength: "The name of an MCP server has to have 1 to {max} characters.",
    McpServerTargetMissing: ({ name }: { name: string }) =>
      `The MCP server ${JSON.stringify(name)} needs either a url or a command.`,
    MarketplaceInvalid: "The marketplace cannot be used: {reason}.",
  },
  BrowserUnavailable: {
    BrowserMissing:
      "There is no browser in this sandbox. Its image needs Chromium or Chrome on the PATH (in Debian the package chromium).",
    BrowserNotStarted: ({ output }: { output: string }) =>
      `The browser did not start in the sandbox${output ? `: ${output}` : "."}`,
    BrowserSilent: "The browser in the sandbox started, but it does not answer.",
  },
  McpFailed: {
    McpServerUnusable: "The MCP server {name} cannot be used: {reason}",
    McpServerNotStarted: "The MCP server {name} cannot be started: {reason}.",
    McpServerTimeout: "It did not answer within {seconds} seconds.",
    McpConnectionClosed: "The connection was closed.",
    McpServerFailed: ({ message }: { message: string }) => message,
  },
  OutboundFailed: {
    MarketplaceRefused: "{host} answered {status}.",
    MarketplaceNotFound: "{host} does not have this public repository or version.",
    ArchiveInvalid: "The archive cannot be used: {reason}.",
  },
  ConfigInvalid: {
    SkillsFolderUnreadable: "SANDPIPER_SKILLS cannot be read: {reason}.",
  },
} as const satisfies ErrorTexts;
