declare const whole: unique symbol;

/**
 * A whole number that a `number` holds exactly. As a parameter's type it has others refused, and its
 * schema says "integer". Every number may be given for it.
 */
export type int = number & { readonly [whole]?: never };
