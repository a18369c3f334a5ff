import { parseAst } from "rolldown/parseAst";
import { analyse } from "scslre";
import type { SourceFile } from "./source-files.ts";

type AstNode = { type: string; start: number } & Record<string, unknown>;

/** What the analysis calls the shapes that take more than linear time. */
const shapes = {
  Self: "nested quantifiers over overlapping characters",
  Trade: "adjacent quantifiers over overlapping characters",
  Move: "a quantifier without an anchor before it, tried from each character",
} as const;

/**
 * Regular expressions of packages whose time is not linear in the text, one sentence each. Of a
 * `new RegExp` the constant parts are known; what is computed counts as one letter.
 */
export function regexProblems(files: readonly SourceFile[]): string[] {
  return files
    .filter(({ path }) => /^packages\/[^/]+\/src\//.test(path) && !path.endsWith(".test.ts"))
    .flatMap(({ path, text }) => {
      if (!/[=(,:[!&|?{};\n] *\/[^/*\n]|RegExp\(/.test(text)) return [];
      const ast = parseAst(text, { lang: "ts" }) as unknown as AstNode;
      const constants = new Map<string, AstNode>();
      const found: { source: string; flags: string; at: number }[] = [];
      visit(ast, (node) => {
        if (node.type === "VariableDeclarator") constants.set(nameOf(node.id), node.init as AstNode);
      });
      visit(ast, (node) => {
        const { regex } = node as { regex?: { pattern: string; flags: string } };
        if (regex) found.push({ source: regex.pattern, flags: regex.flags, at: node.start });
        if (node.type !== "NewExpression" || nameOf(node.callee) !== "RegExp") return;
        const [source, flags] = node.arguments as AstNode[];
        if (!source) return;
        const isConstant = flags?.type === "Literal";
        const known = { source: fold(source, constants), flags: isConstant ? String(flags.value) : "" };
        found.push({ ...known, at: node.start });
      });
      return found.flatMap(({ source, flags, at }) =>
        problemsOf(source, flags).map(
          (problem) =>
            `${path}:${text.slice(0, at).split("\n").length}: /${source.slice(0, 80)}/ has ${problem}.`,
        ),
      );
    });
}

function problemsOf(source: string, flags: string): string[] {
  try {
    const { reports } = analyse({ source, flags }, { reportTypes: { Move: true } });
    return reports.map(({ type }) => shapes[type]);
  } catch (error) {
    return [`a form that cannot be analysed: ${error instanceof Error ? error.message : error}`];
  }
}

/** The text of a constant expression; a part that is not constant becomes the letter `x`. */
function fold(node: AstNode, constants: ReadonlyMap<string, AstNode>, depth = 0): string {
  if (depth > 20) return "x";
  const text = (inner: unknown) => fold(inner as AstNode, constants, depth + 1);
  switch (node?.type) {
    case "Literal":
      return typeof node.value === "string" ? node.value : "x";
    case "Identifier": {
      const value = constants.get(nameOf(node));
      return value ? text(value) : "x";
    }
    case "TemplateLiteral":
      return foldTemplate(node, "cooked", text);
    case "TaggedTemplateExpression":
      return foldTemplate(node.quasi as AstNode, "raw", text);
    case "BinaryExpression":
      return text(node.left) + text(node.right);
    case "CallExpression": {
      const { object, property } = node.callee as { object?: AstNode; property?: AstNode };
      const list = object?.type === "Identifier" ? constants.get(nameOf(object)) : object;
      if (list?.type !== "ArrayExpression" || nameOf(property) !== "join") return "x";
      const [separator] = node.arguments as AstNode[];
      return (list.elements as AstNode[]).map(text).join(separator ? text(separator) : ",");
    }
    default:
      return "x";
  }
}

function foldTemplate(node: AstNode, form: "raw" | "cooked", text: (inner: unknown) => string): string {
  const parts = node.quasis as { value: { raw: string; cooked: string } }[];
  const expressions = node.expressions as AstNode[];
  return parts
    .map(({ value }, index) => value[form] + (expressions[index] ? text(expressions[index]) : ""))
    .join("");
}

function nameOf(node: unknown): string {
  return String((node as { name?: unknown } | undefined)?.name);
}

function visit(node: unknown, see: (node: AstNode) => void): void {
  if (typeof node !== "object" || node === null) return;
  if (!Array.isArray(node) && "type" in node) see(node as AstNode);
  for (const child of Object.values(node)) visit(child, see);
}
