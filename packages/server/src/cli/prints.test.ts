import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseAst } from "rolldown/parseAst";
import { describe, expect, test } from "vitest";

/**
 * Walks over everything that the command line prints: a value in a printed text must come from a
 * function that makes it inert or that makes it of numbers and words of ours.
 */

interface Node {
  type: string;
  start: number;
  end: number;
  [name: string]: unknown;
}

/** Their results are inert, or contain no text of others. */
const safeCalls =
  /^(?:inert|inertLine|inertJson|format[A-Z]\w*|display|report|summary|shortId|format|keyTable|printEvent|max|toLocaleString|toFixed|errorText)$/;
/** Results of these are as safe as what they are given. */
const passing = /^(?:paint|row|join|padEnd|padStart|trimEnd|slice|map)$/;
/** Values that only the program makes, by the file that prints them. */
const ownValues: Readonly<Record<string, readonly string[]>> = {
  "attach.ts": ["resetModes", "data"],
  "chat/chat.ts": ["text", "lines"],
  "chat/editor.ts": ["pasteOn", "pasteOff", "lines"],
  "confirm.ts": ["what", "risk"],
  "keys.ts": ["key", "user", "whose"],
  "progress.ts": ["spinner", "lines", "shown", "usage"],
  "gui/canvas-package.ts": ["name", "canvasVersion"],
  "gui/gui.ts": ["canvasVersion", "front.openingUrl", "front.url"],
  // The patch for a file or a pipe is exact.
  "hand-over.ts": ["patch.text"],
  "live-output.ts": ["lines"],
  "migrate-progress.ts": ["line"],
  "migrate.ts": ["done", "server.pid"],
  "logs.ts": ["line", "lines", "undone"],
  "own-platform.ts": ["platform.newApiKey"],
  "run.ts": ["endings[status]", "lines"],
  "settings.ts": ["field"],
  "show.ts": ["lines", "shown"],
  "program/settings.ts": ["script"],
  "stop.ts": ["done"],
  "serve.ts": ["platform.newApiKey", "platform.url", "loginUrl", "lines", "signal"],
};

const cli = fileURLToPath(new URL("./", import.meta.url));
const files = [
  "../main.ts",
  ...readdirSync(cli, { recursive: true, encoding: "utf8" }).filter((name) => /(?<!\.test)\.ts$/.test(name)),
];

describe("what the command line prints is inert", () => {
  test.each(files)("%s", (file) => {
    expect(unsafePrints(readFileSync(`${cli}${file}`, "utf8"), ownValues[file] ?? [])).toEqual([]);
  });

  test.each([
    ["process.stdout.write(`a ${name}`)", ["name"]],
    ["progress.print(paint('dim', `a ${name}`))", ["name"]],
    ["ask(`Apply to ${folder}?`)", ["folder"]],
    ["process.stderr.write(text)", ["text"]],
    ["process.stderr.write(`a ${inertLine(name)} ${formatDuration(1)} ${1} ${a ? 'x' : 'y'}`)", []],
  ])("the walk sees %s", (code, found) => {
    expect(unsafePrints(code, [])).toEqual(found);
  });
});

function unsafePrints(code: string, own: readonly string[]): string[] {
  const found: string[] = [];
  const sourceOf = (node: Node) => code.slice(node.start, node.end);
  const check = (node: Node): void => {
    if (/\.length$/.test(sourceOf(node))) return;
    switch (node.type) {
      case "Literal":
        return;
      case "TemplateLiteral":
        return (node.expressions as Node[]).forEach(check);
      case "AwaitExpression":
      case "SpreadElement":
      case "TSAsExpression":
        return check((node.argument ?? node.expression) as Node);
      case "ConditionalExpression":
        return [node.consequent, node.alternate].forEach((part) => {
          check(part as Node);
        });
      case "BinaryExpression":
      case "LogicalExpression":
        return [node.left, node.right].forEach((part) => {
          check(part as Node);
        });
      case "ArrayExpression":
        return (node.elements as Node[]).forEach(check);
      case "CallExpression": {
        const callee = node.callee as Node;
        const name = String(((callee.property ?? callee) as Node).name);
        if (safeCalls.test(name)) return;
        if (passing.test(name)) {
          if (callee.object && name !== "paint") check(callee.object as Node);
          return (node.arguments as Node[]).forEach(check);
        }
      }
    }
    if (!own.includes(sourceOf(node).split(/[(?]/)[0]!)) found.push(sourceOf(node));
  };
  const visit = (node: Node): void => {
    if (node.type === "CallExpression" && prints.test(sourceOf(node.callee as Node)))
      for (const argument of node.arguments as Node[]) check(argument);
    for (const value of Object.values(node))
      for (const child of Array.isArray(value) ? value : [value])
        if (typeof child === "object" && child !== null && "type" in child) visit(child as Node);
  };
  visit(parseAst(code, { lang: "ts" }) as unknown as Node);
  return found;
}

const prints =
  /^(?:process\.std(?:out|err)\.write|out\.write|stream\.write|.*#stream\.write|progress\.print|this\.print|ask)$/;
