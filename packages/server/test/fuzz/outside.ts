import { reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { TestEndpoint } from "../support/callback-receiver.ts";
import { bitbucketToken, serveBitbucket } from "../support/git-services/bitbucket.ts";
import { forgejoToken, serveForgejo } from "../support/git-services/forgejo.ts";
import { githubToken, serveGithub } from "../support/git-services/github.ts";
import { gitlabToken, serveGitlab } from "../support/git-services/gitlab.ts";
import { finish, terminal } from "../support/script.ts";

/** A message that lets the agent make a repository with changes, skills and hooks. */
export const prepareText = "Prepare the project";

const prepare = [
  "git init -q; git config user.email a@b.c; git config user.name A; echo one > a.txt; git add . && git commit -qm first; echo two > a.txt; echo plan > PLAN.md",
  "mkdir -p .openhands/skills/greet src && echo '{\"hooks\":{}}' > .openhands/hooks.json && printf -- '---\\nname: greet\\ntriggers: [hello]\\n---\\nHello.\\n' > .openhands/skills/greet/SKILL.md",
];

/** A model, git providers and a sometimes failing webhook endpoint, on loopback. */
export type Outside = Awaited<ReturnType<typeof openOutside>>;

/** `isShown` is true for a text with a secret that may leave the platform only as a credential. */
export async function openOutside(isShown: (text: string) => boolean) {
  const shown = new Set<string>();
  const model = await startModelServer(({ messages, body, index }) => {
    if (isShown(JSON.stringify(body))) shown.add("the model was shown a planted secret");
    const last = messages.at(-1);
    if (last?.role === "user" && last.text.includes(prepareText))
      return reply.toolCalls(prepare.map((command) => terminal(command)));
    return index % 3 === 0 ? reply.text("Done.") : finish("Done.");
  });
  const endpoint = await new TestEndpoint().listen();
  endpoint.answer = (index) => ({ status: index % 2 === 0 ? 200 : 500 });
  const [github, gitlab, bitbucket, forgejo] = [
    await serveGithub(),
    await serveGitlab(),
    await serveBitbucket(),
    await serveForgejo(),
  ];
  return {
    model,
    endpoint,
    /** As they are stored at `POST /api/add-git-providers`. */
    providers: {
      github: { token: githubToken, host: github.host },
      gitlab: { token: gitlabToken, host: gitlab.host },
      bitbucket: { token: bitbucketToken, host: bitbucket.host },
      forgejo: { token: forgejoToken, host: forgejo.host },
    },
    /** Drops recorded requests to bound memory. Returns what leaked to the services. */
    drain(): string[] {
      const received = endpoint.received.splice(0);
      if (received.some(({ body, headers }) => isShown(body + JSON.stringify(headers))))
        shown.add("an endpoint was shown a planted secret");
      model.requests.splice(0);
      for (const one of [github, gitlab, bitbucket, forgejo]) one.asked.splice(0);
      return [...shown];
    },
    async close(): Promise<void> {
      await model.close();
      await endpoint.close();
      for (const one of [github, gitlab, bitbucket, forgejo]) one.close();
    },
  };
}

/** Values of the fields that name a service; undefined for other fields. */
export function outsideValues(name: string, { providers, endpoint }: Outside): unknown[] | undefined {
  switch (name) {
    case "host":
      return Object.values(providers).map(({ host }) => host);
    case "provider":
    case "selected_provider":
      return Object.keys(providers);
    case "provider_tokens":
      return [providers];
    case "repository":
    case "repository_name":
    case "selected_repository":
      return ["acme/widgets", "team/app"];
    case "url":
      return [endpoint.url];
    default:
      return undefined;
  }
}
