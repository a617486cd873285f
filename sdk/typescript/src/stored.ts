/** The type of an operator's values, and how those of earlier types become values of it. */

import { fromJson, toJson } from "./json.js";
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

  /** A stored value, and what is to be stored instead if it is of an earlier type. */
  read(bytes: Uint8Array): { value: any; migrated?: Uint8Array } {
    try {
      return { value: this.accept(bytes) };
    } catch (error) {
      if (!(error instanceof Mismatch)) throw error;
    }
    const made: any = this.migration(fromJson(bytes));
    if (typeof made?.then === "function") throw new TypeError(`the migration of ${this.operator} returned a promise`);
    const migrated = toJson(made ?? null);
    try {
      return { value: this.accept(migrated), migrated };
    } catch (error) {
      if (!(error instanceof Mismatch)) throw error;
      throw new TypeError(`the migration of ${this.operator} returned another type: ${error.describe("it")}`);
    }
  }

  private accept(bytes: Uint8Array): any {
    const value = fromJson(bytes);
    return this.check === null ? value : this.check(value);
  }
}
