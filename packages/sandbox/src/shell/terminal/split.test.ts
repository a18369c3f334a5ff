import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { findRefusal } from "./refusal.ts";
import { splitCommands } from "./split.ts";

describe("one command", () => {
  test.each([
    "ls",
    "a && b; c | d &",
    "a &&\n  b ||\n  c",
    "a |\n  b",
    "echo one \\\n  two",
    "# what follows\nls",
    "ls # list\n",
    "\n\nls\n\n",
    "if true; then\n  echo a\n  echo b\nelse\n  c\nfi",
    "for i in 1 2 3\ndo\n  echo $i\ndone | sort",
    "while read -r line; do\n  echo $line\ndone < file",
    "case $x in\n  a|b) echo 1 ;;\n  (c)\n    echo 2\n    ;;\nesac",
    "f() {\n  echo a\n  echo b\n}",
    "f()\n{\n  echo a\n}",
    "function f {\n  echo a\n}",
    "(\n  cd /tmp\n  ls\n)",
    "{\n  ls\n  pwd\n} > out",
    "[[ -f a\n  || -f b ]] && echo yes",
    "a=(\n  1\n  2\n)",
    "echo \"one\ntwo\" 'three\nfour'",
    "echo $'it\\'s\nfine'",
    "echo $(\n  ls\n  pwd\n)",
    'echo "$(cat <<EOF\nit is\nhere\nEOF\n)"',
    "cat <<EOF > file\nline one\nif then (\n'\nEOF",
    "cat <<-'EOF'\n\tone $(\n\tEOF",
    "cat <<A <<B\n1\nA\n2\nB",
    "python3 - <<'PY'\nprint('a')\nprint(\"b\")\nPY",
    "cat <<< 'a\nb'",
    "diff <(\nls a\n) <(ls b)",
    "echo $((1 +\n2))",
    "for ((i = 0; i < 3; i++)); do\n  echo $i\ndone",
    "git commit -m 'a\n\nb' && git push",
    "echo 'never closed\nls",
    "if true\nls",
    "cat <<EOF\nnever closed",
    "",
  ])("%j", (text) => expect(splitCommands(text)).toHaveLength(1));
});

test.each([
  ["ls\npwd", ["ls", "pwd"]],
  ["ls;\npwd", ["ls;", "pwd"]],
  ["server &\nsleep 1\ncurl x", ["server &", "sleep 1", "curl x"]],
  ["cat <<EOF\na\nEOF\nls", ["cat <<EOF\na\nEOF", "ls"]],
  ["if a; then\n b\nfi\nls -la", ["if a; then\n b\nfi", "ls -la"]],
  ["f() {\n a\n}\nf", ["f() {\n a\n}", "f"]],
  ["x='a\nb'\necho \"$x\"", ["x='a\nb'", 'echo "$x"']],
  ["echo for\necho done", ["echo for", "echo done"]],
])("%j is several commands", (text, commands) => expect(splitCommands(text)).toEqual(commands));

test("any text is split without an error and without invented characters", () => {
  const piece = fc.constantFrom(
    "'",
    '"',
    "`",
    "$(",
    "${",
    ")",
    "}",
    "{",
    "(",
    "<<E",
    "E",
    "\n",
    " ",
    ";",
    "&&",
    "if",
    "fi",
    "case",
    "in",
    "esac",
    "do",
    "\\",
    "#",
    "a",
    "\t",
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const text = pieces.join("");
      for (const command of splitCommands(text)) expect(text).toContain(command);
    }),
    { numRuns: 2_000 },
  );
});

describe("a Python or JSON value", () => {
  test.each([
    '{"a": 1}',
    "{'a': True, 'b': None}",
    "[1, 2, 3]",
    "['x', \"y\",]",
    '"""\ntext\n"""',
    '{\n  "a": [1, {"b": 2}]\n}',
  ])("%j is refused with a hint", (text) => expect(findRefusal(text)).toMatch(/script file/));
  test.each([
    "[ -f x ]",
    '[ "$a" = b ]',
    "{ ls; }",
    "[[ -n $x ]]",
    "echo '{}'",
    "{ echo a; echo b; }",
    "true",
    "(1)",
  ])("%j may run", (text) => expect(findRefusal(text)).toBeUndefined());
});
