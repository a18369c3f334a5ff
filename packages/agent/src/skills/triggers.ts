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

/** Bounds of the search, which keeps the server from others meanwhile: characters of a message, triggers, and time, ms. */
const maxLength = 100_000;
const maxTriggers = 2_000;
const maxTime = 100;

/**
 * Finds the skills whose trigger stands in a message as a word of its own, in any case, and that the conversation does not have yet. Of a very long
 * message the beginning and the end count.
 */
export function activateSkills(
  skills: readonly Skill[],
  message: string,
  known: ReadonlySet<string>,
): Activation {
  const words = new Words(ends(message));
  const deadline = performance.now() + maxTime;
  const found: { skill: Skill; trigger: string }[] = [];
  let left = maxTriggers;
  for (const skill of skills) {
    if (known.has(skill.name)) continue;
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

/** Whether a text holds a word, in any case, with no letter or digit right before or after it. */
export function holdsWord(text: string, word: string): boolean {
  return new Words(text).has(word);
}

/** A text in which words are looked for, in any case. */
class Words {
  readonly #text: string;
  /** For each place the next one behind it before which no letter or digit stands; made when it is first needed. */
  #starts: Uint32Array | undefined;

  constructor(text: string) {
    this.#text = text.toLowerCase();
  }

  /** Whether a word stands there with no letter or digit right before or after it. */
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
