// What pages read and change, each with its place in the cache.
import { useMutation, useQueries, useQuery, useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { ApiError, get, path, request, send, type Schemas } from './client';
import { snapshot, subscribe, type Live } from './events';

export const useLive = (): Live => useSyncExternalStore(subscribe, snapshot);

type Result<T> = UseQueryResult<T, ApiError>;

const useGet = <T>(key: string[], from: string, refetchInterval: number | false = false, enabled = true): Result<T> =>
  useQuery<T, ApiError>({ queryKey: key, queryFn: () => get<T>(from), refetchInterval, enabled });

export const useIdentity = () => useGet<Schemas['IdentityView']>(['identity'], '/v1/identity');
export const useApps = () => useGet<Schemas['AppList']>(['catalog', 'apps'], '/v1/apps');
export const useApp = (app: string) => useGet<Schemas['AppView']>(['catalog', 'app', app], path('v1', 'apps', app));
/** The same of several apps. */
export const useAppsByName = (apps: string[]) =>
  useQueries({
    queries: apps.map(app => ({
      queryKey: ['catalog', 'app', app],
      queryFn: () => get<Schemas['AppView']>(path('v1', 'apps', app)),
      retry: false,
    })),
  });
export const useCluster = () => useGet<Schemas['ClusterView']>(['cluster', 'overview'], '/v1/cluster', 5000);
export const useWorkers = () => useGet<Schemas['WorkerList']>(['cluster', 'workers'], '/v1/workers', 2000);
/** All of them; so many that it takes a while are read less often. */
export const usePartitions = () =>
  useQuery<Schemas['PartitionList'], ApiError>({
    queryKey: ['cluster', 'partitions'],
    queryFn: () => get<Schemas['PartitionList']>('/v1/partitions?limit=65536'),
    refetchInterval: ({ state }) => ((state.data?.total ?? 0) > 8192 ? 10_000 : 2000),
    // Nearly all change each time: to look for what has not costs more than it saves.
    structuralSharing: false,
  });
/** Migrations, the newest first; read often while one is under way. */
export const useMigrations = () =>
  useQuery<Schemas['MigrationList'], ApiError>({
    queryKey: ['cluster', 'migrations'],
    queryFn: () => get<Schemas['MigrationList']>('/v1/migrations'),
    refetchInterval: ({ state }) => (state.data?.migrations.some(isUnderWay) ? 500 : 5000),
  });
/** How one went for those who called; until that is all known, there is more to come. */
export const useCourse = (id: string) =>
  useQuery<Schemas['MigrationCourse'], ApiError>({
    queryKey: ['course', id],
    queryFn: () => get<Schemas['MigrationCourse']>(path('v1', 'migrations', id, 'course')),
    refetchInterval: ({ state }) => (state.data?.complete ? false : 2000),
  });
export const isUnderWay = ({ ended }: Schemas['MigrationView']): boolean => ended == null;
export const useAutoscaler = (enabled: boolean) =>
  useGet<Schemas['AutoscalerView']>(['cluster', 'autoscaler'], '/v1/autoscaler', 5000, enabled);
export type RequestKind = 'recent' | 'slow' | 'aborted';
export const useRequests = (kind: RequestKind = 'recent', app = '') =>
  useGet<Schemas['RequestList']>(
    ['requests', kind, app],
    `/v1/requests?${new URLSearchParams({ kind, limit: '100', ...(app && { app }) })}`,
    2000,
  );
export const useTrace = (id: string) =>
  useQuery<Schemas['RequestTrace'], ApiError>({
    queryKey: ['requests', 'one', id],
    queryFn: () => get<Schemas['RequestTrace']>(path('v1', 'requests', id, 'trace')),
    // Until it has ended there is more to come.
    refetchInterval: ({ state }) => (state.data && !state.data.ended_us ? 500 : false),
    retry: false,
  });
export const useTraffic = () => useGet<Schemas['Traffic']>(['traffic'], '/v1/traffic', 2000);
export const useNodes = () => useGet<Schemas['NodeList']>(['cluster', 'nodes'], '/v1/nodes', 2000);
export const useAttention = () => useGet<Schemas['AttentionList']>(['attention'], '/v1/attention', 5000);
export const useSnapshots = () => useGet<Schemas['SnapshotList']>(['snapshots'], '/v1/snapshots', 15_000);
export const useQuarantine = () => useGet<Schemas['QuarantineList']>(['catalog', 'quarantine'], '/v1/quarantine');
export const useTokens = (enabled: boolean) =>
  useGet<Schemas['TokenList']>(['catalog', 'tokens'], '/v1/tokens', false, enabled);

export const useAudit = () => useGet<Schemas['AuditList']>(['audit'], '/v1/audit', 5000);

export type Page = Schemas['Entries'];

export function useEntries(app: string, operator: string, prefix: string, after: string) {
  const query = new URLSearchParams({ limit: '50' });
  if (prefix) query.set('prefix', prefix);
  if (after) query.set('after', after);
  return useGet<Page>(['state', app, operator, prefix, after], `${path('v1', 'state', app, operator)}?${query}`, 5000);
}

/** What an entity is, and who wrote it last, as far as that is known and may be seen. */
export interface Entity {
  now: Schemas['EntityView'];
  write: Schemas['LastWrite'] | ApiError;
}

/** The last write is read after the entity, each time: so it is never older than what it is compared with. */
export function useEntity(app: string, operator: string, key: string) {
  const entity = path('v1', 'state', app, operator, key);
  return useQuery<Entity, ApiError>({
    queryKey: ['state', app, operator, 'entity', key],
    queryFn: async () => {
      const now = await get<Schemas['EntityView']>(entity);
      const write = await get<Schemas['LastWrite']>(`${entity}/last-write`).catch((error: unknown) => {
        if (error instanceof ApiError) return error;
        throw error;
      });
      return { now, write };
    },
    refetchInterval: 5000,
  });
}

/** How many entities each operator of an app has: counted up to what one page may hold, so that asking costs little. */
export const useEntityCounts = (app: string, operators: string[]) =>
  useQueries({
    queries: operators.map(operator => ({
      queryKey: ['state', app, operator, 'count'],
      queryFn: async () => {
        const page = await get<Page>(`${path('v1', 'state', app, operator)}?limit=1000`);
        return { entities: page.entries.length, more: page.next != null };
      },
    })),
  });

/** A change, after which what it has changed is read again. */
export function useChange<Input, Output>(change: (input: Input) => Promise<Output>, ...changed: string[]) {
  const client = useQueryClient();
  return useMutation<Output, ApiError, Input>({
    mutationFn: change,
    onSettled: () => Promise.all(changed.map(key => client.invalidateQueries({ queryKey: [key] }))),
  });
}

/** What whoever changes something agrees to: whatever it takes from others, that entities are placed anew. */
export interface Agreed {
  force?: boolean;
  rekey?: boolean;
}

/** Those of a request's options that are wanted. */
export function options(wanted: Agreed & { dry_run?: boolean }): string {
  const names = Object.entries(wanted).filter(([, is]) => is === true);
  return names.length > 0 ? `?${names.map(([name]) => `${name}=true`).join('&')}` : '';
}
export const activate = ({ app, id, ...agreed }: { app: string; id: string } & Agreed) =>
  send<Schemas['Activated']>('POST', `${path('v1', 'apps', app, 'deployments', id, 'activate')}${options(agreed)}`);
export const remove = ({ app, force }: { app: string; force: boolean }) =>
  send<Schemas['Removed']>('DELETE', `${path('v1', 'apps', app)}${options({ force })}`);
export const verifySnapshot = (sequence: number) =>
  send<Schemas['SnapshotVerified']>('POST', path('v1', 'snapshots', String(sequence), 'verify'));
export const takeSnapshot = () => send<Schemas['SnapshotSummary']>('POST', '/v1/snapshots');
/** Has the browser save what a request answers; the token goes with it, as a link could not do. */
async function save(from: string, name: string): Promise<Response> {
  const response = await request('GET', from);
  let body: Blob;
  try {
    body = await response.blob();
  } catch {
    throw new ApiError(0, 'INCOMPLETE', 'the answer broke off', 'try again; `styx logs` and the server’s log say why');
  }
  const link = document.createElement('a');
  link.href = URL.createObjectURL(body);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
  return response;
}
/** All entities of an operator. */
export async function saveExport({ app, operator }: { app: string; operator: string }): Promise<{ epoch: number }> {
  const from = `${path('v1', 'apps', app, 'export')}?operator=${encodeURIComponent(operator)}`;
  const response = await save(from, `${app}-${operator}.ndjson`);
  return { epoch: Number(response.headers.get('styx-epoch')) };
}
/** What an app's functions take and return. */
export const saveOpenApi = (app: string) => save(path('v1', 'apps', app, 'openapi.json'), `${app}-openapi.json`);
export const release = (id: string) => send<Schemas['Released']>('DELETE', path('v1', 'quarantine', id));
export const issue = (wanted: Schemas['TokenRequest']) => send<Schemas['Issued']>('POST', '/v1/tokens', wanted);
export const revoke = (id: string) => send<Schemas['Revoked']>('DELETE', path('v1', 'tokens', id));

type Scope = Schemas['Scope'];

/** Whether who looks at this may do something; while that is not known, no. */
export function useMay(scope: Scope, app?: string): { may: boolean; why: string } {
  const { data } = useIdentity();
  const covers = data?.apps == null || (app !== undefined && data.apps.includes(app));
  const may = !!data && data.scopes.includes(scope) && covers;
  return { may, why: may || !data ? '' : `“${data.name}” has no scope “${scope}”${app ? ` on ${app}` : ''}` };
}
