/** @returns undefined for text that is not JSON: the parser's own message would quote the text, which may hold a secret */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
