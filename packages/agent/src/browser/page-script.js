/*
 * Runs inside of pages, in a JavaScript world of its own: a page shares its document with it and none of its objects. Accessors come from the
 * prototypes all the same, for a page can put elements in the place of a form's or a document's own properties. Walks end after a number of
 * nodes and after a time, whatever the page is. Evaluated again in a document that has it, it keeps the elements that are numbered there.
 */
globalThis.sandpiperPage ??= (() => {
  const maxNodes = 200_000;
  const maxMs = 2_000;
  const maxText = 100;

  const getter = (prototype, name) => {
    const { get } = Object.getOwnPropertyDescriptor(prototype, name);
    return (object) => get.call(object);
  };
  const firstChild = getter(Node.prototype, "firstChild");
  const nextSibling = getter(Node.prototype, "nextSibling");
  const parentNode = getter(Node.prototype, "parentNode");
  const nodeType = getter(Node.prototype, "nodeType");
  const nodeValue = getter(CharacterData.prototype, "data");
  const shadowRoot = getter(Element.prototype, "shadowRoot");
  const localName = getter(Element.prototype, "localName");
  const attribute = (element, name) => Element.prototype.getAttribute.call(element, name);
  const has = (element, name) => Element.prototype.hasAttribute.call(element, name);
  const rectOf = (element) => Element.prototype.getBoundingClientRect.call(element);
  // A frame has classes of its own, so elements are recognised by their names.
  const is = (node, name) => nodeType(node) === 1 && localName(node) === name;
  const cut = (text, length = maxText) => (text.length > length ? `${text.slice(0, length)}…` : text);
  const oneLine = (text) => text.replace(/\s+/g, " ").trim();

  /**
   * The nodes from a root on in the order of the document, shadow trees and frames included. `enter` gives false to leave out what is below;
   * `leave` is called for the others. Gives false where it broke off.
   */
  function walk(root, enter, leave = () => {}) {
    const until = performance.now() + maxMs;
    const open = [];
    let node = root;
    for (let left = maxNodes; left > 0; left--) {
      if (left % 256 === 0 && performance.now() > until) return false;
      if (enter(node) !== false) open.push({ node, ...below(node) });
      for (node = null; !node; ) {
        const top = open.at(-1);
        if (!top) return true;
        node = top.next ?? top.after;
        if (node === top.after) top.after = null;
        top.next = node && nextSibling(node);
        if (!node) leave(open.pop().node);
      }
    }
    return false;
  }

  function below(node) {
    const shadow = nodeType(node) === 1 ? shadowRoot(node) : null;
    if (shadow) return { next: firstChild(shadow), after: firstChild(node) };
    return { next: is(node, "iframe") ? frameRoot(node) : firstChild(node), after: null };
  }

  function frameRoot(frame) {
    try {
      return getter(HTMLIFrameElement.prototype, "contentDocument")(frame)?.documentElement ?? null;
    } catch {
      return null;
    }
  }

  /** Text below an element, up to a length. */
  function textOf(element, length = maxText) {
    let text = "";
    walk(element, (node) => {
      if (text.length > length * 2) return false;
      if (nodeType(node) === 3) text += nodeValue(node).slice(0, length * 2);
      else if (nodeType(node) === 1 && silent.has(localName(node))) return false;
      else if (nodeType(node) === 1)
        text += `${text.endsWith(" ") ? "" : " "}${attribute(node, "alt")?.slice(0, length) ?? ""}`;
      return true;
    });
    return cut(oneLine(text), length);
  }

  const silent = new Set([
    "script",
    "style",
    "noscript",
    "template",
    "head",
    "svg",
    "object",
    "embed",
    "datalist",
  ]);
  const controls = new Set(["button", "input", "select", "textarea", "summary", "option"]);
  const roles = new Set(
    "button link checkbox radio switch tab menuitem menuitemcheckbox menuitemradio option combobox textbox searchbox slider spinbutton treeitem".split(
      " ",
    ),
  );

  function isVisible(element) {
    return Element.prototype.checkVisibility.call(element, {
      visibilityProperty: true,
      contentVisibilityAuto: true,
    });
  }

  /** Whether a person could do something with an element; `pointer` says that the mouse shows so for its parent already. */
  function isInteractive(element, name) {
    if (name === "option") return false;
    if (controls.has(name)) return !(name === "input" && attribute(element, "type") === "hidden");
    if (name === "a" || name === "area") return has(element, "href") || has(element, "onclick");
    if (roles.has(attribute(element, "role") ?? "") || has(element, "onclick")) return true;
    const editable = attribute(element, "contenteditable");
    if (editable !== null && editable !== "false") return true;
    if (has(element, "tabindex") && attribute(element, "tabindex") !== "-1") return true;
    return getComputedStyle(element).cursor === "pointer" && !hasPointerAbove(element);
  }

  function hasPointerAbove(element) {
    const parent = parentNode(element);
    return parent && nodeType(parent) === 1 && getComputedStyle(parent).cursor === "pointer";
  }

  let numbered = [];

  /** Numbers what a user could use, and describes it. */
  function state(limit) {
    const all = [];
    const complete = walk(document.documentElement, (node) => {
      if (nodeType(node) !== 1) return true;
      const name = localName(node);
      if (silent.has(name)) return false;
      if (all.length < 10_000 && isInteractive(node, name) && isVisible(node)) {
        const { width, height } = rectOf(node);
        if (width > 0 && height > 0) all.push(node);
      }
      return true;
    });
    // If there are too many, only those from the first visible one on.
    const first =
      all.length <= limit
        ? 0
        : Math.max(
            0,
            Math.min(
              all.length - limit,
              all.findIndex((element) => placeOf(element).bottom > 0),
            ),
          );
    numbered = all.slice(first, first + limit);
    return {
      url: cut(location.href, 2_000),
      title: cut(oneLine(String(getter(Document.prototype, "title")(document))), 200),
      viewport: { width: innerWidth, height: innerHeight },
      scroll: { y: Math.round(scrollY), page_height: scroller().scrollHeight },
      interactive_elements: numbered.map(describe),
      ...(first > 0 && { elements_before: first }),
      ...(all.length > first + limit && { elements_after: all.length - first - limit }),
      ...(!complete && { incomplete: true }),
    };
  }

  function describe(element, index) {
    const name = localName(element);
    const texts = { tag: name };
    for (const key of ["type", "role", "name", "placeholder", "title", "aria-label"]) {
      const value = attribute(element, key);
      if (value) texts[key] = cut(oneLine(value));
    }
    if (name === "select") {
      const options = Array.from(element.options ?? []).slice(0, 30);
      texts.options = options.map((option) => cut(oneLine(option.text), 60));
      texts.value = cut(oneLine(element.selectedOptions?.[0]?.text ?? ""));
    } else {
      const text = name === "input" || name === "textarea" ? "" : textOf(element);
      if (text) texts.text = text;
    }
    if (name === "input" || name === "textarea") {
      if (["checkbox", "radio"].includes(element.type)) texts.checked = element.checked;
      else if (element.type !== "password" && element.value) texts.value = cut(element.value);
      const label = element.labels?.[0];
      if (label) texts.label = textOf(label);
    }
    const href = attribute(element, "href");
    if (href) texts.href = cut(href, 200);
    if (has(element, "disabled")) texts.disabled = true;
    return { index, ...texts };
  }

  /** A rectangle in the page's own viewport, also of an element in a frame. */
  function placeOf(element) {
    let { left, top, right, bottom } = rectOf(element);
    for (let view = element.ownerDocument.defaultView; view && view !== window; ) {
      const frame = view.frameElement;
      if (!frame) break;
      const outer = rectOf(frame);
      left += outer.left + frame.clientLeft;
      right += outer.left + frame.clientLeft;
      top += outer.top + frame.clientTop;
      bottom += outer.top + frame.clientTop;
      view = frame.ownerDocument.defaultView;
    }
    return { left, top, right, bottom };
  }

  /** The numbered element, or why there is none. */
  function find(index) {
    const element = numbered[index];
    if (!element)
      return { problem: numbered.length === 0 ? "unnumbered" : "unknown", count: numbered.length };
    if (!element.isConnected) return { problem: "gone" };
    return { element };
  }

  /** Scrolls to an element and returns where to click. */
  function locate(index) {
    const { element, ...problem } = find(index);
    if (!element) return problem;
    element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const { left, top, right, bottom } = placeOf(element);
    // A link over two lines is clicked in the first of them.
    const line = element.getClientRects()[0];
    const box = rectOf(element);
    const x =
      line && element.getClientRects().length > 1
        ? left - box.left + line.left + line.width / 2
        : (left + right) / 2;
    const y =
      line && element.getClientRects().length > 1
        ? top - box.top + line.top + line.height / 2
        : (top + bottom) / 2;
    const href = is(element, "a") ? cut(element.href, 2_000_000) : "";
    const isFile = is(element, "input") && element.type === "file";
    return {
      x,
      y,
      hit: isHit(element, x, y),
      name: localName(element),
      disabled: has(element, "disabled"),
      href,
      isFile,
    };
  }

  function isHit(element, x, y) {
    let root = document;
    let [localX, localY] = [x, y];
    for (let depth = 0; depth < 20; depth++) {
      const top = root.elementFromPoint(localX, localY);
      if (!top) return false;
      for (let node = top; node; node = parentNode(node) ?? node.host ?? null)
        if (node === element) return true;
      if (is(top, "iframe") && frameRoot(top)) {
        const { left, top: above } = rectOf(top);
        localX -= left + top.clientLeft;
        localY -= above + top.clientTop;
        root = frameRoot(top).ownerDocument;
      } else if (shadowRoot(top)) root = shadowRoot(top);
      else return is(top, "label") && top.control === element;
    }
    return false;
  }

  function click(index) {
    const { element, ...problem } = find(index);
    if (!element) return problem;
    HTMLElement.prototype.click.call(element);
    return {};
  }

  const typed = new Set(["text", "search", "url", "tel", "email", "password", "number"]);

  /** Makes an element ready for text, or takes the text itself where no key would write it. */
  function type(index, text) {
    const { element, ...problem } = find(index);
    if (!element) return problem;
    if (has(element, "disabled") || element.readOnly === true) return { problem: "disabled" };
    element.scrollIntoView({ block: "center", behavior: "instant" });
    if (is(element, "select")) {
      const wanted = text.trim();
      const options = Array.from(element.options);
      const option = options.find(({ text: shown, value }) => oneLine(shown) === wanted || value === wanted);
      if (!option)
        return {
          problem: "option",
          options: options.slice(0, 50).map(({ text: shown }) => cut(oneLine(shown), 60)),
        };
      if (!element.multiple) element.value = option.value;
      option.selected = true;
      tellChange(element);
      return { done: true };
    }
    if (is(element, "input") && !typed.has(element.type)) {
      if (["checkbox", "radio", "button", "submit", "reset", "image", "hidden"].includes(element.type))
        return { problem: "untyped" };
      if (element.type === "file") return { file: true };
      element.value = text;
      tellChange(element);
      return element.value === text ? { done: true } : { problem: "value", shown: cut(element.value) };
    }
    element.focus({ preventScroll: true });
    if (is(element, "input") || is(element, "textarea")) {
      element.select();
      return { single: is(element, "input") };
    }
    if (!element.isContentEditable) return { problem: "untyped" };
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = element.ownerDocument.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return { single: false };
  }

  function tellChange(element) {
    for (const name of ["input", "change"])
      element.dispatchEvent(new Event(name, { bubbles: true, composed: true }));
  }

  const scroller = () => document.scrollingElement ?? document.documentElement;

  /** Scrolls most of a screen, in the page or in what lies in the middle of the screen. */
  function scroll(direction) {
    const step = (element) => {
      const before = element.scrollTop;
      element.scrollBy({
        top: (direction === "up" ? -0.85 : 0.85) * element.clientHeight,
        behavior: "instant",
      });
      return element.scrollTop !== before;
    };
    const page = scroller();
    let moved = step(page);
    for (
      let node = document.elementFromPoint(innerWidth / 2, innerHeight / 2);
      !moved && node && nodeType(node) === 1;
      node = parentNode(node)
    )
      moved = node.scrollHeight > node.clientHeight && step(node);
    return { moved, y: Math.round(page.scrollTop), height: page.scrollHeight, screen: innerHeight };
  }

  const blocks = new Set(
    `address article aside blockquote body dd details dialog div dl dt fieldset figcaption figure footer form header hgroup hr html legend li main nav
    ol p pre section table tbody tfoot thead tr ul h1 h2 h3 h4 h5 h6 iframe option summary`.split(/\s+/),
  );

  /** The visible text of the page, as plain Markdown. */
  function content(withLinks, start, length) {
    const end = start + length;
    let text = "";
    let passed = 0;
    let preformatted = 0;
    let atStart = true;
    let full = false;
    const put = (piece) => {
      if (piece === "") return;
      const from = Math.max(0, start - passed);
      if (from < piece.length) text += piece.slice(from, from + Math.max(0, end - Math.max(passed, start)));
      passed += piece.length;
      atStart = piece.endsWith("\n");
      full = passed > end;
    };
    const newLine = () => {
      if (!atStart) put("\n");
    };
    const links = [];
    const complete = walk(
      document.body ?? document.documentElement,
      (node) => {
        if (full) return false;
        if (nodeType(node) === 3) {
          const data = nodeValue(node);
          const piece = preformatted > 0 ? data : data.replace(/[ \t\r\n\f]+/g, " ");
          put(atStart && preformatted === 0 ? piece.trimStart() : piece);
          return false;
        }
        if (nodeType(node) !== 1) return nodeType(node) === 9;
        const name = localName(node);
        if (silent.has(name) || !isVisible(node)) return false;
        if (blocks.has(name)) newLine();
        if (/^h[1-6]$/.test(name)) put(`\n${"#".repeat(Number(name[1]))} `);
        else if (name === "li") put("- ");
        else if (name === "br") put("\n");
        else if (name === "hr") put("---\n");
        else if (name === "td" || name === "th") put("| ");
        else if (name === "pre") {
          put("```\n");
          preformatted++;
        } else if (name === "img" && attribute(node, "alt"))
          put(`![${cut(oneLine(attribute(node, "alt")), 200)}] `);
        else if (
          name === "textarea" ||
          (name === "input" && typed.has(node.type) && node.type !== "password")
        )
          put(`[${cut(oneLine(node.value || attribute(node, "placeholder") || ""), 200)}] `);
        else if (name === "a" && withLinks && has(node, "href")) {
          links.push(node);
          put("[");
        }
        return name !== "textarea";
      },
      (node) => {
        if (full || nodeType(node) !== 1) return;
        const name = localName(node);
        if (name === "pre" && preformatted > 0) {
          preformatted--;
          newLine();
          put("```\n");
        } else if (links.at(-1) === node) {
          links.pop();
          put(`](${cut(String(node.href), 500)})`);
        } else if (name === "td" || name === "th") put(" ");
        else if (blocks.has(name)) newLine();
        if (name === "p" || name === "table" || /^h[1-6]$/.test(name)) put("\n");
      },
    );
    return { text: text.slice(0, length), more: full, incomplete: !complete };
  }

  /** The stored data of the page's origin, up to a number of characters. */
  function storage(length) {
    let left = length;
    const read = (kind) => {
      const items = [];
      try {
        const store = globalThis[kind];
        for (let at = 0; at < store.length && left > 0; at++) {
          const name = store.key(at);
          const value = store.getItem(name) ?? "";
          left -= name.length + value.length;
          items.push({ name: cut(name, 1_000), value: cut(value, 10_000) });
        }
      } catch {
        // A page without an origin has no storage.
      }
      return items;
    };
    return {
      origin: location.origin,
      localStorage: read("localStorage"),
      sessionStorage: read("sessionStorage"),
      cut: left < 0,
    };
  }

  /** HTTP status of the page; 0 where it has none. */
  const status = () => performance.getEntriesByType("navigation")[0]?.responseStatus ?? 0;

  /** Sets what the page's origin stores. Gives false where the page is of another origin. */
  function store({ origin, ...stores }) {
    if (origin !== location.origin) return false;
    for (const kind of ["localStorage", "sessionStorage"])
      for (const { name, value } of stores[kind]) globalThis[kind].setItem(name, value);
    return true;
  }

  return {
    state,
    locate,
    click,
    type,
    scroll,
    content,
    storage,
    store,
    status,
    element: (index) => numbered[index],
  };
})();
