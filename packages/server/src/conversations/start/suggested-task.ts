import type { ProviderType, SuggestedTask } from "@sandpiper/wire";

/** The service's term for a request to merge. */
function requestWord(provider: ProviderType): string {
  return provider === "gitlab" ? "merge request" : "pull request";
}

const work: Record<SuggestedTask["task_type"], (number: number, request: string) => string> = {
  MERGE_CONFLICTS: (number, request) =>
    `Resolve the merge conflicts of ${request} #${number}: check out its branch, merge its target branch into it, and resolve each conflict so that what both sides meant is kept. Run the tests that cover the files in conflict.`,
  FAILING_CHECKS: (number, request) =>
    `Make the failing checks of ${request} #${number} pass: check out its branch, find out which checks fail and why, reproduce the failure here, and repair its cause. Do not switch off tests or checks.`,
  UNRESOLVED_COMMENTS: (number, request) =>
    `Work through the unresolved review comments of ${request} #${number}: check out its branch, read each comment, and make the change that it asks for, or say why it should not be made.`,
  OPEN_ISSUE: (number) =>
    `Work on issue #${number}: read the issue and its comments, find the code that it is about, reproduce the problem where it is one, and make the change with tests for it on a new branch.`,
  OPEN_PR: (number, request) =>
    `Bring ${request} #${number} forward: check out its branch, read its description and comments, find out what is missing until it can be merged, and do that.`,
  CREATE_MICROAGENT: (number) =>
    `Write a skill file for agents from issue #${number}: read the issue, look at the code that it is about, and put what an agent has to know into a Markdown file under .openhands/microagents/.`,
};

/** The first message of a suggested task, whose title is quoted as data. */
export function suggestedTaskPrompt({
  git_provider,
  task_type,
  repo,
  issue_number,
  title,
}: SuggestedTask): string {
  const task = work[task_type](issue_number, requestWord(git_provider));
  const quoted = JSON.stringify(title.replace(/\s+/g, " ").trim().slice(0, 500));
  return `${task}

Repository: ${repo} (${git_provider})
Title: ${quoted}

Read what you need with the service's API or with git; credentials for them are in the environment where the user has stored them. Commit in small steps with clear messages. When you are done, push the branch if you can, and say what you did and what is left.`;
}
