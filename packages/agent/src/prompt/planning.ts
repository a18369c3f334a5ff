import { posix } from "node:path";

/** The plan (app-server.md section 2.5); GitLab and Azure DevOps refuse dot folders. */
export function getPlanPath(config: { workingDir: string; gitProvider: string | null }): string {
  const visible = config.gitProvider === "gitlab" || config.gitProvider === "azure_devops";
  return posix.join(config.workingDir, visible ? "agents-tmp-config" : ".agents_tmp", "PLAN.md");
}

export function planningBlock(planPath: string): string {
  return `<PLANNING>
In this conversation you make a plan and do not carry it out. This stands above what is said about doing the task.
* Explore with glob, grep and the view command of planning_file_editor until you know which code the task touches and how it is tested. You cannot run commands or change other files.
* Write the plan to ${planPath} with planning_file_editor, and keep that file up to date while the plan changes.
* A plan names: the goal and what is out of scope; what is there now, with paths; the steps in order, each with the files that it changes and how it is checked; risks and open questions.
* Ask when the task can be read in ways that lead to different plans. When the plan is ready, call finish with a short account of it.
</PLANNING>`;
}
