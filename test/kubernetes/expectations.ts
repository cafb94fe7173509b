import { deepStrictEqual, ok } from 'node:assert/strict';
import { findKind, findPod, type KubernetesObject, type Pod } from './chart.js';

// What holds of every render, whatever the values are.

/** A stop has this long after SHUTDOWN_DELAY_MS (docs/operations/health.md). */
const STOP_SECONDS = 13;
/** A start that makes no progress ends after this time. */
const START_SECONDS = 60;

/** @throws when a render breaks a promise of the chart */
export function expectPromises(objects: readonly KubernetesObject[], isInsecure: boolean): void {
  ok(objects.length > 0, 'nothing is rendered');
  deepStrictEqual(findKind(objects, 'Secret'), [], 'a Secret is rendered');
  const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  deepStrictEqual(names, [...new Set(names)], 'two objects have one name');
  for (const kind of ['Deployment', 'Job', 'Pod'] as const) {
    const pod = findPod(objects, kind);
    if (pod) expectRestricted(pod);
  }
  const service = findPod(objects, 'Deployment');
  ok(service, 'there is no Deployment');
  expectPatience(service);
  if (!isInsecure) expectDoors(objects);
}

/** The restricted Pod Security Standard, and more. */
function expectRestricted(pod: Pod): void {
  deepStrictEqual([pod.automountServiceAccountToken, pod.enableServiceLinks], [false, false]);
  const { runAsNonRoot, seccompProfile } = pod.securityContext;
  deepStrictEqual({ runAsNonRoot, seccompProfile }, { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
  deepStrictEqual(pod.containers[0].securityContext, {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  });
}

function expectPatience(pod: Pod): void {
  const [{ startupProbe, livenessProbe, readinessProbe, env }] = pod.containers;
  const read = (name: string): string | undefined => env.find((variable) => variable.name === name)?.value;
  const hasGrace = Number(read('OUTAGE_GRACE_SECONDS') ?? 0) > 0;
  deepStrictEqual(
    [startupProbe, livenessProbe, readinessProbe].map((probe) => probe?.httpGet.path),
    ['/health/live', '/health/live', hasGrace ? '/health/ready' : '/health'],
  );
  ok(startupProbe && startupProbe.periodSeconds * startupProbe.failureThreshold > START_SECONDS, 'a start has no time');
  const stopSeconds = Number(read('SHUTDOWN_DELAY_MS')) / 1000 + STOP_SECONDS;
  ok((pod.terminationGracePeriodSeconds ?? 0) > stopSeconds, 'a stop has no time');
  ok(Number(read('REFRESH_GRACE_SECONDS')) >= START_SECONDS, 'a refresh is not repeated after a failover');
  deepStrictEqual(read('WORKERS'), '1');
}

/** Only the public port is reached from outside of the cluster; the others by label. */
function expectDoors(objects: readonly KubernetesObject[]): void {
  const [deployment] = findKind(objects, 'Deployment');
  const publicService = deployment?.metadata.name;
  const routes = [...findKind(objects, 'Ingress'), ...findKind(objects, 'HTTPRoute')];
  for (const route of routes) {
    const text = JSON.stringify(route);
    const backends = [...text.matchAll(/"(?:service|backendRefs)":\[?\{"name":"([^"]+)"/g)].map(([, name]) => name);
    deepStrictEqual([...new Set(backends)], [publicService]);
  }
  const services = findKind(objects, 'Service') as unknown as ServiceObject[];
  for (const { metadata, spec } of services) {
    const isPublic = metadata.name === publicService;
    deepStrictEqual(
      spec.ports.map(({ targetPort }) => targetPort === 'public'),
      [isPublic],
    );
    if (!isPublic) deepStrictEqual(spec.type, 'ClusterIP');
  }
  const ports = findPod(objects, 'Deployment')?.containers[0].ports ?? [];
  const publicPort = ports.find(({ name }) => name === 'public')?.containerPort;
  for (const { spec } of findKind(objects, 'NetworkPolicy') as unknown as PolicyObject[]) {
    const open = spec.ingress.filter(({ from }) => from === undefined).flatMap((rule) => rule.ports);
    ok(
      open.every(({ port }) => port === publicPort),
      'another port than the public one is open to all',
    );
    ok(
      spec.egress.every((rule) => rule.ports.length > 0),
      'egress to every port is allowed',
    );
  }
}

interface ServiceObject extends KubernetesObject {
  readonly spec: { readonly type: string; readonly ports: readonly { readonly targetPort: string }[] };
}

interface PolicyObject extends KubernetesObject {
  readonly spec: {
    readonly ingress: readonly { readonly from?: unknown; readonly ports: readonly { readonly port: number }[] }[];
    readonly egress: readonly { readonly ports: readonly unknown[] }[];
  };
}
