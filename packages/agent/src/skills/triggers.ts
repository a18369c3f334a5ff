import { type TextContent, textContent } from "@sandpiper/wire";
import type { Skill } from "./skill.ts";

/** Skills that a user message activates. */
export interface Activation {
  names: string[];
  /** One block per skill, naming the trigger (events.md section 4). */
  content: TextContent[];
}

const maxSkills = 10;

/** Limits of the synchronous search: characters, triggers, ms. */
const maxLength = 100_000;
const maxTriggers = 2_000;
const maxTime = 100;

/**
 * Finds new skills whose trigger is a word of the message, in any case. Only the start and end of a
 * very long message count.
 */
export function activateSkills(
  skills: readonly Skill[],
  message: string,
  activeNames: ReadonlySet<string>,
): Activation {
  const words = new Words(ends(message));
  const deadline = performance.now() + maxTime;
  const found: { skill: Skill; trigger: string }[] = [];
  let left = maxTriggers;
  for (const skill of skills) {
    if (activeNames.has(skill.name)) continue;
    if (found.length === maxSkills || left <= 0) break;
    const triggers = skill.triggers.slice(0, left);
    left -= triggers.length;
    const trigger = triggers.find((word) => performance.now() < deadline && words.has(word));
    if (trigger !== undefined) found.push({ skill, trigger });
  }
  return {
    names: found.map(({ skill }) => skill.name),
    content: found.map(({ skill, trigger }) => textContent(extraInfo(skill, trigger))),
  };
}

function ends(message: string): string {
  if (message.length <= maxLength) return message;
  return `${message.slice(0, maxLength / 2)}\n${message.slice(-maxLength / 2)}`;
}

function extraInfo({ name, content, location, inputs }: Skill, trigger: string): string {
  const takes = inputs ? `\n\n${inputsText(inputs)}` : "";
  const where = location === null ? "" : ` It lies in ${location}; paths in it are relative to that folder.`;
  return `<EXTRA_INFO>\nThe message holds the word "${trigger}", for which there is the skill "${name}".${where} It may or may not help here.\n\n${content}${takes}\n</EXTRA_INFO>`;
}

function inputsText(inputs: NonNullable<Skill["inputs"]>): string {
  const lines = inputs.map(({ name, description }) => `- ${name}${description ? `: ${description}` : ""}`);
  return `The task takes these inputs, which stand as \${name} in the text. Find them in the message, and ask the user for those that are missing:\n${lines.join("\n")}`;
}

/** Whether a text contains a whole word, in any case. */
export function containsWord(text: string, word: string): boolean {
  return new Words(text).has(word);
}

/** Searches whole words, in any case. */
class Words {
  readonly #text: string;
  /** Lazy: for each index the next possible start of a word. */
  #starts: Uint32Array | undefined;

  constructor(text: string) {
    this.#text = text.toLowerCase();
  }

  has(word: string): boolean {
    const text = this.#text;
    const wanted = word.toLowerCase();
    if (wanted === "") return false;
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, this.#nextStart(at))) {
      if (!isWordCharacter(text[at - 1]) && !isWordCharacter(text[at + wanted.length])) return true;
    }
    return false;
  }

  #nextStart(at: number): number {
    if (!this.#starts) {
      const text = this.#text;
      this.#starts = new Uint32Array(text.length);
      for (let place = text.length - 1, next = text.length; place >= 0; place--) {
        if (!isWordCharacter(text[place])) next = place + 1;
        this.#starts[place] = next;
      }
    }
    return this.#starts[at]!;
  }
}

function isWordCharacter(character = " "): boolean {
  return /[\p{L}\p{N}]/u.test(character);
}
