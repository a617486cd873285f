// A page that throws is one page less, and says so; everything around it goes on.
import { Component, type ReactNode } from 'react';
import { line, shorten } from '../lib/format';
import { Button, Copy, Notice, Page } from './basics';

interface Props {
  /** What is shown: another one has another chance. */
  of: string;
  children: ReactNode;
}

interface State {
  error: Error | null;
  of: string;
}

export class Boundary extends Component<Props, State> {
  override state: State = { error: null, of: this.props.of };

  static getDerivedStateFromError(error: unknown): Partial<State> {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  static getDerivedStateFromProps({ of }: Props, state: State): Partial<State> | null {
    return of === state.of ? null : { error: null, of };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    const report = `${error.name}: ${error.message}\nat ${window.location.pathname}\n${error.stack ?? ''}`;
    return (
      <Page title="This page cannot be shown" lead="All others can, and the server goes on">
        <Notice kind="bad" title="It could not be drawn">
          That is a mistake of the console, or the server is of another release than this page. Load it again. If that
          does not help, what it shows is also in the admin API (<code>/openapi.json</code>), and the program has it (
          <code>styx --help</code>).
        </Notice>
        <p className="quiet">
          What went wrong: <code>{line(shorten(error.message, 300))}</code>
        </p>
        <div className="actions">
          <Button kind="primary" onClick={() => window.location.reload()}>
            Load it again
          </Button>
          <Button onClick={() => this.setState({ error: null })}>Try once more</Button>
          <Copy text={report} label="Copy what went wrong" />
        </div>
      </Page>
    );
  }
}
