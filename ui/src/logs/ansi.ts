// ANSI colours of a log line. Pure. Anything that is not a colour is dropped, never shown as garbage.

export interface Span {
  text: string;
  style?: { color?: string; fontWeight?: string; opacity?: number };
}

/** Dark enough on white, light enough on black; the eight that terminals name. */
const COLOURS = ["light-dark(#57606a, #9aa4b2)", "light-dark(#c02626, #ff8080)", "light-dark(#1a7f37, #5fcf80)", "light-dark(#8a5a00, #e0b252)", "light-dark(#1f5fc4, #6ea8fe)", "light-dark(#8a3fb0, #d49bff)", "light-dark(#0f6f78, #5cc8d4)", "light-dark(#3d444d, #d5dae1)"];
const ESCAPE = /\u001b\[([0-9;?]*)([A-Za-z])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[\u0000-\u0008\u000b-\u001a\u001c-\u001f]/g;

export function spans(line: string): Span[] {
  if (!line.includes("\u001b") && !/[\u0000-\u0008]/.test(line)) return [{ text: line }];
  const result: Span[] = [];
  let style: Span["style"];
  let last = 0;
  const add = (text: string) => {
    if (text) result.push(style ? { text, style } : { text });
  };
  for (const match of line.matchAll(ESCAPE)) {
    add(line.slice(last, match.index));
    last = match.index + match[0].length;
    if (match[2] === "m") style = next(style, match[1] ?? "");
  }
  add(line.slice(last));
  return result.length > 0 ? result : [{ text: "" }];
}

export const plain = (line: string) => line.replace(ESCAPE, "");

function next(style: Span["style"], codes: string): Span["style"] {
  let current = style ? { ...style } : {};
  const list = codes.split(";").map(Number);
  for (let index = 0; index < list.length; index++) {
    const code = list[index] ?? 0;
    if (code === 0) current = {};
    else if (code === 1) current.fontWeight = "600";
    else if (code === 2) current.opacity = 0.7;
    else if (code === 22) {
      delete current.fontWeight;
      delete current.opacity;
    } else if (code === 39) delete current.color;
    else if (code >= 30 && code <= 37) current.color = COLOURS[code - 30];
    else if (code >= 90 && code <= 97) current.color = COLOURS[code - 90];
    else if (code === 38) {
      if (list[index + 1] === 5) {
        current.color = indexed(list[index + 2] ?? 7);
        index += 2;
      } else if (list[index + 1] === 2) {
        current.color = `rgb(${list.slice(index + 2, index + 5).map((part) => part || 0).join(" ")})`;
        index += 4;
      }
    }
  }
  return Object.keys(current).length > 0 ? current : undefined;
}

function indexed(code: number): string | undefined {
  if (code < 16) return COLOURS[code % 8];
  if (code >= 232) {
    const grey = 8 + (code - 232) * 10;
    return `rgb(${grey} ${grey} ${grey})`;
  }
  const cube = code - 16;
  const level = (value: number) => (value === 0 ? 0 : 55 + value * 40);
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
}
