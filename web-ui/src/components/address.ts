// What is chosen on a page is in its address, so that the view can be passed on.
import { useState } from 'react';
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

/** What is written into a field: as the address had it at first, which then follows. The field may be empty meanwhile. */
export function useField(name: string, first: string): [string, (value: string) => void] {
  const [text, setText] = useParameter(name);
  const [value, setValue] = useState(text || first);
  const set = (value: string) => {
    setValue(value);
    setText(value === first ? '' : value);
  };
  return [value, set];
}
