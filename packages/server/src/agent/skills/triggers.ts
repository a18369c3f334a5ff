import { type TextContent, textContent } from "@sandpiper/wire";
import type { Skill } from "./skill.ts";

/** What a user message brings along. */
export interface Activation {
  names: string[];
  /** One block a skill, naming the trigger (events.md section 4, "MessageEvent with triggered skill"). */
  content: TextContent[];
}

/** Most skills that one message brings. */
const maxSkills = 10;

/** Finds the skills whose trigger stands in a message as a word of its own, in any case, and that the conversation does not have yet. */
export function activateSkills(skills: readonly Skill[], message: string, known: ReadonlySet<string>): Activation {
  const found: { skill: Skill; trigger: string }[] = [];
  for (const skill of skills) {
    if (known.has(skill.name) || found.length === maxSkills) continue;
    const trigger = skill.triggers.find((word) => holdsWord(message, word));
    if (trigger !== undefined) found.push({ skill, trigger });
  }
  return {
    names: found.map(({ skill }) => skill.name),
    content: found.map(({ skill, trigger }) => textContent(extraInfo(skill, trigger))),
  };
}

function extraInfo({ name, content, location }: Skill, trigger: string): string {
  const where = location === null ? "" : ` It lies in ${location}; paths in it are relative to that folder.`;
  return `<EXTRA_INFO>\nThe message holds the word "${trigger}", for which there is the skill "${name}".${where} It may or may not help here.\n\n${content}\n</EXTRA_INFO>`;
}

/** Whether a text holds a word, in any case, with no letter or digit right before or after it. */
export function holdsWord(text: string, word: string): boolean {
  const [haystack, needle] = [text.toLowerCase(), word.toLowerCase()];
  if (needle === "") return false;
  for (let at = haystack.indexOf(needle); at >= 0; at = haystack.indexOf(needle, at + 1)) {
    const [before, after] = [haystack.slice(0, at).at(-1) ?? " ", haystack[at + needle.length] ?? " "];
    if (!isWordCharacter(before) && !isWordCharacter(after)) return true;
  }
  return false;
}

function isWordCharacter(character: string): boolean {
  return /[\p{L}\p{N}]/u.test(character);
}
