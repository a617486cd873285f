// In which language something was written, by the SDK that built it.

const NAMES: Record<string, string> = {
  'styx-c': 'C',
  'styx-go': 'Go',
  'styx-python': 'Python',
  'styx-rust': 'Rust',
  'styx-typescript': 'TypeScript',
};

/** The language of an SDK, which says its name and its release; what is not known is told as it is. */
export function languageOf(sdk: string): string {
  const name = sdk.split(' ')[0] ?? '';
  return NAMES[name] ?? name;
}

/** The app that has an operator, and the operator's name there: of another app than the caller's it is told with its app. */
export function located(operator: string, own: string): [app: string, operator: string] {
  const at = operator.indexOf('/');
  return at < 0 ? [own, operator] : [operator.slice(0, at), operator.slice(at + 1)];
}
