import { ProfileMutation } from "@sandpiper/wire";
import { type TObject, type TString, Type } from "typebox";
import type { Route } from "../../server/make-route.ts";
import type { App } from "../../server/services.ts";

export interface ProfileEdits {
  base: string;
  /** For messages, and for summaries. */
  noun: ["Profile", "an LLM profile"] | ["Agent profile", "an agent profile"];
  /** Path parameters besides the name. */
  keys?: Record<string, TString>;
  name: TString;
  body: TObject<{ new_name: TString }>;
  /** Failures of renaming, and of deleting. */
  failures?: number[];
  removeFailures?: number[];
  options?: object;
  profiles: {
    remove(userId: string, name: string): Promise<unknown>;
    rename(userId: string, name: string, newName: string): Promise<unknown>;
  };
}

/** Deletion and renaming of profiles, which are the same in each family. */
export function profileEditRoutes(
  app: App,
  route: Route,
  {
    base,
    noun: [noun, object],
    keys,
    name,
    body,
    failures = [409],
    removeFailures = [],
    options,
    profiles,
  }: ProfileEdits,
): void {
  const params = Type.Object({ ...keys, name });
  const response = { 200: ProfileMutation };
  app.delete(
    `${base}/:name`,
    {
      ...options,
      ...route(`Delete ${object}, if there is one`, { params, response }, { failures: removeFailures }),
    },
    async ({ principal, params: { name } }) => {
      await profiles.remove(principal.userId, name);
      return { name, message: `${noun} '${name}' deleted` };
    },
  );
  app.post(
    `${base}/:name/rename`,
    { ...options, ...route(`Rename ${object}`, { params, body, response }, { failures }) },
    async ({ principal, params: { name }, body: { new_name: newName } }) => {
      await profiles.rename(principal.userId, name, newName);
      return { name: newName, message: `${noun} '${name}' renamed to '${newName}'` };
    },
  );
}
