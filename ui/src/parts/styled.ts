// A document for libraries that write styles as text, which the page's policy refuses: the same styles go through the
// CSSOM, which it allows.

/** The page's document, but for the elements it makes. */
export function styled(): Document {
  const create = (name: string, options?: ElementCreationOptions) => {
    if (name === "style") return sheet(document.createElement("span"));
    const element = document.createElement(name, options);
    byProperty(element);
    return element;
  };
  return new Proxy(document, {
    get(target, name) {
      if (name === "createElement") return create;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value as (...words: unknown[]) => unknown).bind(target) : value;
    },
  });
}

/** The same for what a library makes of the page's own document, while `work` goes on. */
export function withSheets(work: () => void) {
  const create = document.createElement.bind(document);
  document.createElement = ((name: string, options?: ElementCreationOptions) => (name === "style" ? sheet(create("span")) : create(name, options))) as typeof document.createElement;
  try {
    work();
  } finally {
    // The prototype's is there again.
    delete (document as { createElement?: unknown }).createElement;
  }
}

/** Stands for a `<style>`: its text becomes a sheet of the document, as long as it is there. */
function sheet(element: HTMLElement): HTMLElement {
  element.hidden = true;
  const rules = new CSSStyleSheet();
  document.adoptedStyleSheets.push(rules);
  Object.defineProperty(element, "textContent", { set: (text: string) => rules.replaceSync(text), get: () => "" });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== rules);
    HTMLElement.prototype.remove.call(element);
  };
  return element;
}

function byProperty(element: HTMLElement) {
  element.setAttribute = (name: string, value: string) => {
    if (name === "style") element.style.cssText = value;
    else HTMLElement.prototype.setAttribute.call(element, name, value);
  };
}
