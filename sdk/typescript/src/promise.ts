/**
 * Promises whose reactions run when the SDK says so. A component's exports return at once, and
 * QuickJS runs the reactions of its own promises only after they have; so a component gets these
 * instead, and the bundler turns `async` functions into generators on top of them.
 */

type Job = () => void;
type Settle = (value: any) => void;

/** Promises wait for nothing but each other: what is queued here is all that can still happen. */
export class Jobs {
  private queue: Job[] = [];
  /** Rejected, with nobody to be told of it. */
  readonly unhandled = new Set<object>();

  add(job: Job): void {
    this.isUsed = true;
    this.queue.push(job);
  }

  /** Whether anything has been queued, or was rejected, since it was cleared. */
  isUsed = false;

  /** Runs what is queued, and what that queues. */
  run(): void {
    for (let index = 0; index < this.queue.length; index++) {
      const job = this.queue[index]!;
      if (index === 1000) {
        this.queue.splice(0, index + 1);
        index = -1;
      }
      job();
    }
    this.queue = [];
  }

  /** Forgets everything: the invocation is over. */
  clear(): void {
    this.queue = [];
    this.unhandled.clear();
    this.isUsed = false;
  }
}

const enum Status {
  Pending,
  Fulfilled,
  Rejected,
}

/** The class `Promise` over a queue. */
export function promiseClass(jobs: Jobs): any {
  class Promise {
    /** @internal */ status: Status = Status.Pending;
    /** @internal */ value: any = undefined;
    /** @internal */ reactions: Job[] = [];

    constructor(executor: (resolve: Settle, reject: Settle) => void) {
      if (typeof executor !== "function") throw new TypeError("a promise needs a function");
      const [resolve, reject] = settlers(this);
      try {
        executor(resolve, reject);
      } catch (error) {
        reject(error);
      }
    }

    then(onFulfilled?: any, onRejected?: any): any {
      const species: any = this.constructor;
      const next = withResolvers(typeof species === "function" ? species : Promise);
      const react = () => {
        const handler = this.status === Status.Fulfilled ? onFulfilled : onRejected;
        jobs.add(() => {
          if (typeof handler !== "function") {
            if (this.status === Status.Fulfilled) next.resolve(this.value);
            else next.reject(this.value);
            return;
          }
          let result;
          try {
            result = handler(this.value);
          } catch (error) {
            next.reject(error);
            return;
          }
          next.resolve(result);
        });
      };
      jobs.unhandled.delete(this);
      if (this.status === Status.Pending) this.reactions.push(react);
      else react();
      // A rejection that is still to come has somebody to be told of it.
      (this as any).isHandled = true;
      return next.promise;
    }

    catch(onRejected?: any): any {
      return this.then(undefined, onRejected);
    }

    finally(run?: any): any {
      if (typeof run !== "function") return this.then(run, run);
      return this.then(
        (value: any) => Promise.resolve(run()).then(() => value),
        (error: any) =>
          Promise.resolve(run()).then(() => {
            throw error;
          }),
      );
    }

    static resolve(value?: any): any {
      if (value instanceof Promise && value.constructor === this) return value;
      return new this((resolve) => resolve(value));
    }

    static reject(error?: any): any {
      return new this((_, reject) => reject(error));
    }

    static withResolvers(): any {
      return withResolvers(this);
    }

    static try(run: any, ...args: any[]): any {
      return new this((resolve) => resolve(run(...args)));
    }

    static all(promises: Iterable<any>): any {
      return each(this, promises, (values, resolve, reject, count) => (index, promise) =>
        promise.then((value: any) => {
          values[index] = value;
          if (count() === 0) resolve(values);
        }, reject), (values, resolve) => resolve(values));
    }

    static allSettled(promises: Iterable<any>): any {
      return each(this, promises, (values, resolve, _, count) => (index, promise) => {
        const settled = (outcome: object) => {
          values[index] = outcome;
          if (count() === 0) resolve(values);
        };
        promise.then(
          (value: any) => settled({ status: "fulfilled", value }),
          (reason: any) => settled({ status: "rejected", reason }),
        );
      }, (values, resolve) => resolve(values));
    }

    static any(promises: Iterable<any>): any {
      const failed = (errors: any[]) => new AggregateError(errors, "all promises were rejected");
      return each(this, promises, (errors, resolve, reject, count) => (index, promise) =>
        promise.then(resolve, (error: any) => {
          errors[index] = error;
          if (count() === 0) reject(failed(errors));
        }), (errors, _, reject) => reject(failed(errors)));
    }

    static race(promises: Iterable<any>): any {
      return new this((resolve, reject) => {
        for (const promise of promises) this.resolve(promise).then(resolve, reject);
      });
    }

    get [Symbol.toStringTag](): string {
      return "Promise";
    }
  }

  function settle(promise: any, status: Status, value: any): void {
    promise.status = status;
    promise.value = value;
    const reactions: Job[] = promise.reactions;
    promise.reactions = [];
    if (status === Status.Rejected && !promise.isHandled) {
      jobs.isUsed = true;
      jobs.unhandled.add(promise);
    }
    for (const react of reactions) react();
  }

  function settlers(promise: any): [Settle, Settle] {
    let isDone = false;
    const reject = (error: any) => {
      if (isDone) return;
      isDone = true;
      settle(promise, Status.Rejected, error);
    };
    const resolve = (value: any) => {
      if (isDone) return;
      isDone = true;
      if (value === promise) return settle(promise, Status.Rejected, new TypeError("a promise cannot wait for itself"));
      let then;
      try {
        then = value !== null && (typeof value === "object" || typeof value === "function") ? value.then : undefined;
      } catch (error) {
        return settle(promise, Status.Rejected, error);
      }
      if (typeof then !== "function") return settle(promise, Status.Fulfilled, value);
      jobs.add(() => {
        const [resolveIt, rejectIt] = settlers(promise);
        try {
          then.call(value, resolveIt, rejectIt);
        } catch (error) {
          rejectIt(error);
        }
      });
    };
    return [resolve, reject];
  }

  function withResolvers(constructor: any): any {
    let resolve: Settle, reject: Settle;
    const promise = new constructor((one: Settle, other: Settle) => {
      resolve = one;
      reject = other;
    });
    return { promise, resolve: resolve!, reject: reject! };
  }

  type Watch = (values: any[], resolve: Settle, reject: Settle, count: () => number) => (index: number, promise: any) => void;

  function each(constructor: any, promises: Iterable<any>, watch: Watch, onNone: (values: any[], resolve: Settle, reject: Settle) => void): any {
    return new constructor((resolve: Settle, reject: Settle) => {
      const values: any[] = [];
      let remaining = 0;
      const all = [...promises].map((promise) => constructor.resolve(promise));
      if (all.length === 0) return onNone(values, resolve, reject);
      remaining = all.length;
      const one = watch(values, resolve, reject, () => --remaining);
      all.forEach((promise, index) => one(index, promise));
    });
  }

  return Promise;
}

/** How a promise of this class stands, without waiting. */
export function statusOf(promise: any): { isPending: boolean; isRejected: boolean; value: any } {
  // Whoever asks has taken notice.
  return { isPending: promise.status === Status.Pending, isRejected: promise.status === Status.Rejected, value: promise.value };
}
