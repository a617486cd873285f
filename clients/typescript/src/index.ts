/** Call transactional functions on Styx. */
export { Client, Entity, type Arguments, type CallOptions, type ClientOptions, type Ended, type Stored } from './client.js';
export { StyxError } from './error.js';
export type { Reply } from './pipeline.js';
export type { Retry } from './retry.js';
