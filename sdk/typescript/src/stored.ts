/** The type of an operator's values, and how those of earlier types become values of it. */

import { fromText, toText } from "./json.js";
import { checkOf, Mismatch, type Check, type Schema } from "./shape.js";

/** Names under which `describe` tells of it; functions cannot have such. */
export const STATE = "styx.state";
export const MIGRATE = "styx.migrate";

/** What an operator's functions read by, if it has a migration. */
export class Stored {
  private readonly check: Check | null;

  constructor(
    private readonly operator: string,
    schema: Schema,
    private readonly migration: (old: any) => unknown,
  ) {
    this.check = checkOf(schema);
  }

  /**
   * A stored value, and whether it was of an earlier type, so that it is to be stored. `again` reads it once more:
   * the check of one that is not of the type may have changed it.
   */
  read(stored: any, again: () => any): { value: any; isMigrated: boolean } {
    try {
      return { value: this.accept(stored), isMigrated: false };
    } catch (error) {
      if (!(error instanceof Mismatch)) throw error;
    }
    const made: any = this.migration(again());
    if (typeof made?.then === "function") throw new TypeError(`the migration of ${this.operator} returned a promise`);
    try {
      return { value: this.accept(fromText(toText(made ?? null))), isMigrated: true };
    } catch (error) {
      if (!(error instanceof Mismatch)) throw error;
      throw new TypeError(`the migration of ${this.operator} returned another type: ${error.describe("it")}`);
    }
  }

  private accept(value: any): any {
    return this.check === null ? value : this.check(value);
  }
}
