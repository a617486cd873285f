import { WebSocket } from 'ws';

/** Opens a WebSocket that shows a token. */
export function open(url: string, token: string | undefined): globalThis.WebSocket {
  const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  const socket = new WebSocket(url, { headers, perMessageDeflate: false });
  return socket as unknown as globalThis.WebSocket;
}

/** True if a WebSocket can show a token here. */
export const showsTokens = true;
