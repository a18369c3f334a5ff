/** Quoted texts without blanks, as programs name files. */
const quoted = /(["'`])([\w@./+-]{1,200})\1/g;

/** Imports of Python. */
const pythonImport = /^[ \t]*(?:from|import)[ \t]+([\w.]{1,200})/gm;

const scriptEnding = /\.(?:sh|bash|py|js|mjs|cjs|ts|rb|pl|php)$/;

/** Endings that Node.js and Ruby add to the name of a file. */
const endings = ["", ".js", ".mjs", ".cjs", ".ts", "/index.js", ".rb"];

/** Paths of scripts that a program may start or load, from its own folder or from the project's. */
export function* findImports(program: string): Generator<string> {
  for (const [, , name = ""] of program.matchAll(quoted)) {
    if (scriptEnding.test(name)) yield name;
    else if (/^\.{1,2}\//.test(name)) for (const ending of endings) yield name + ending;
  }
  for (const [, name = ""] of program.matchAll(pythonImport)) {
    const path = name.replace(/^\.+/, "").replaceAll(".", "/");
    if (path) yield `./${path}.py`;
    if (path) yield `./${path}/__init__.py`;
  }
}
