// Light or dark: as the system has it, until somebody says otherwise.
import { useSyncExternalStore } from 'react';

export type Theme = 'system' | 'light' | 'dark';

const KEY = 'styx.theme';

export function theme(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

export function setTheme(theme: Theme): void {
  if (theme === 'system') localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
  applyTheme();
}

export function applyTheme(): void {
  const wanted = theme();
  if (wanted === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = wanted;
}

/** Which colours are shown; another one whenever they change. For what is drawn, which style sheets do not reach. */
export function useShown(): string {
  return useSyncExternalStore(watchColours, () => `${dark.matches} ${document.documentElement.dataset.theme ?? ''}`);
}

const dark = window.matchMedia('(prefers-color-scheme: dark)');

function watchColours(changed: () => void): () => void {
  dark.addEventListener('change', changed);
  const observer = new MutationObserver(changed);
  observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  return () => {
    dark.removeEventListener('change', changed);
    observer.disconnect();
  };
}
