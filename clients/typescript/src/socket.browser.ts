/** Opens a WebSocket; a page cannot show a token with it. */
export function open(url: string): WebSocket {
  return new WebSocket(url);
}

export const showsTokens = false;
