// The token that is shown to the server: kept for as long as the tab is open.

const KEY = 'styx.token';

export const token = (): string | null => sessionStorage.getItem(KEY);

export function setToken(text: string | null): void {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}
