// What is chosen on a page is in its address, so that the view can be passed on.
import { useSearchParams } from 'wouter';

/** A choice by its name in the address; what is chosen at first is not written there. */
export function useChoice<T extends string>(name: string, all: readonly T[], first: T): [T, (value: T) => void] {
  const [text, set] = useParameter(name);
  return [all.find(known => known === text) ?? first, value => set(value === first ? '' : value)];
}

export function useParameter(name: string): [string, (value: string) => void] {
  const [search, setSearch] = useSearchParams();
  const set = (value: string) =>
    setSearch(
      before => {
        const after = new URLSearchParams(before);
        if (value) after.set(name, value);
        else after.delete(name);
        return after;
      },
      { replace: true },
    );
  return [search.get(name) ?? '', set];
}
