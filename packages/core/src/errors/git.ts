import type { ErrorTexts } from "./texts.ts";

const hostMessage =
  "The host of a git provider is a name such as git.example.com, with a port where it needs one.";

export const gitErrors = {
  InvalidParameter: {
    ProviderHostInvalid: hostMessage,
  },
  BadRequest: {
    StoredProviderHostInvalid: hostMessage,
    RepositoryPathInvalid: "A repository is named by its owner and its name: owner/name.",
    GithubInstallationInvalid: "The id of a GitHub installation must be a number.",
    GitRequestRefused: "{label} does not understand the request.",
  },
  GitUnsupported: {
    ProviderUnsupported: "{provider} is not supported: use one of {supported}.",
  },
  RepositoryNotFound: {
    RepositoryInvisible: "None of your tokens can see the repository {repository}.",
    GitItemMissing: "{label} has nothing with this name that the token can see.",
  },
  FileNotFound: {
    SkillFileMissing: "{repository} has no skill {path}.",
  },
  GitTokenRequired: {
    GitTokenMissing: "Git provider token required (such as GitHub).",
  },
  ProviderTokenInvalid: {
    GitTokenInvalid: "Invalid token. Please make sure it is a valid {label} token.",
  },
  GitTokenTooWeak: {
    GitScopeMissing: "{label} does not let this token do that: give it the scopes to read repositories.",
  },
  GitProviderBusy: {
    GitRateLimited: "{label} takes no more requests with this token for now: try again in {seconds} seconds.",
  },
  GitProviderFailed: {
    GitHostForeign: "{host} has no {provider} API: check the host of the provider.",
    GitAnswerInvalid: "{host} does not answer like {label}: check the host of the provider.",
    GitStatusUnexpected: "{label} ({host}) answered with status {status}: try again later.",
  },
} as const satisfies ErrorTexts;
