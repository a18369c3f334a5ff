import type { ErrorTexts } from "./texts.ts";

type Label = { label: string };

const hostMessage =
  "The host of a git provider is a name such as git.example.com, with a port where it needs one.";

export const gitErrors = {
  ProviderHostInvalid: ["InvalidParameter", hostMessage],
  StoredProviderHostInvalid: ["BadRequest", hostMessage],
  ProviderUnsupported: [
    "GitUnsupported",
    ({ provider, supported }: { provider: string; supported: string }) =>
      `${provider} is not supported: use one of ${supported}.`,
  ],
  RepositoryPathInvalid: ["BadRequest", "A repository is named by its owner and its name: owner/name."],
  RepositoryInvisible: [
    "RepositoryNotFound",
    ({ repository }: { repository: string }) => `None of your tokens can see the repository ${repository}.`,
  ],
  SkillFileMissing: [
    "FileNotFound",
    ({ repository, path }: { repository: string; path: string }) => `${repository} has no skill ${path}.`,
  ],
  GithubInstallationInvalid: ["BadRequest", "A GitHub installation is named by its number."],

  GitTokenMissing: ["GitTokenRequired", "Git provider token required (such as GitHub)."],
  GitTokenInvalid: [
    "ProviderTokenInvalid",
    ({ label }: Label) => `Invalid token. Please make sure it is a valid ${label} token.`,
  ],
  GitScopeMissing: [
    "GitTokenTooWeak",
    ({ label }: Label) =>
      `${label} does not let this token do that: give it the scopes to read repositories.`,
  ],
  GitItemMissing: [
    "RepositoryNotFound",
    ({ label }: Label) => `${label} has nothing with this name that the token can see.`,
  ],
  GitRateLimited: [
    "GitProviderBusy",
    ({ label, seconds }: { label: string; seconds: number }) =>
      `${label} takes no more requests with this token for now: try again in ${seconds} seconds.`,
  ],
  GitRequestRefused: ["BadRequest", ({ label }: Label) => `${label} does not understand the request.`],
  GitHostForeign: [
    "GitProviderFailed",
    ({ host, provider }: { host: string; provider: string }) =>
      `${host} has no ${provider} API: check the host of the provider.`,
  ],
  GitAnswerInvalid: [
    "GitProviderFailed",
    ({ host, label }: { host: string; label: string }) =>
      `${host} does not answer like ${label}: check the host of the provider.`,
  ],
  GitStatusUnexpected: [
    "GitProviderFailed",
    ({ label, host, status }: { label: string; host: string; status: number }) =>
      `${label} (${host}) answered with status ${status}: try again later.`,
  ],
} as const satisfies ErrorTexts;
