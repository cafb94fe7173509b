import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { buildGoProgram } from '../../tools/go-modules.js';

export const CHART = 'deploy/helm/platform-auth';
/** Files of values that the chart is rendered with. */
export const VALUES_FILES = readdirSync(join(CHART, 'ci')).map((name) => join(CHART, 'ci', name));

/** Of the kinds that the chart makes beside those of Kubernetes. */
export const CRDS = [
  ['github.com/cloudnative-pg/cloudnative-pg', 'v1.28.0', 'config/crd/bases/postgresql.cnpg.io_clusters.yaml'],
  ['sigs.k8s.io/gateway-api', 'v1.6.3', 'config/crd/standard/gateway.networking.k8s.io_httproutes.yaml'],
  ...['servicemonitors', 'prometheusrules'].map(
    (name) =>
      [
        'github.com/prometheus-operator/prometheus-operator',
        'v0.85.0',
        `example/prometheus-operator-crd/monitoring.coreos.com_${name}.yaml`,
      ] as const,
  ),
] as const;

const document = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), labels: z.record(z.string(), z.string()) }),
});
export type KubernetesObject = z.output<typeof document>;

const probe = z.object({
  httpGet: z.object({ path: z.string(), port: z.string() }),
  periodSeconds: z.int(),
  failureThreshold: z.int(),
});
const container = z.object({
  command: z.array(z.string()).optional(),
  env: z
    .array(z.object({ name: z.string(), value: z.string().optional(), valueFrom: z.unknown().optional() }))
    .default([]),
  ports: z.array(z.object({ name: z.string(), containerPort: z.int() })).default([]),
  volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })).default([]),
  securityContext: z.object({
    allowPrivilegeEscalation: z.boolean(),
    readOnlyRootFilesystem: z.boolean(),
    capabilities: z.object({ drop: z.tuple([z.literal('ALL')]) }),
  }),
  startupProbe: probe.optional(),
  livenessProbe: probe.optional(),
  readinessProbe: probe.optional(),
});
const secretVolume = z.object({
  secretName: z.string(),
  items: z.array(z.object({ key: z.string(), path: z.string() })),
  defaultMode: z.int(),
});
const pod = z.object({
  /** Those beside the first one are the reader's. */
  containers: z.tuple([container], z.unknown()),
  volumes: z.array(z.object({ name: z.string(), secret: secretVolume.optional() })).default([]),
  automountServiceAccountToken: z.boolean(),
  enableServiceLinks: z.boolean(),
  terminationGracePeriodSeconds: z.int().optional(),
  /** OpenShift assigns a user where none is given. */
  securityContext: z.looseObject({
    runAsUser: z.int().optional(),
    runAsGroup: z.int().optional(),
    fsGroup: z.int().optional(),
  }),
});
export type Pod = z.output<typeof pod>;
/** The Secrets of a cluster: the values of their keys. */
export type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>;
const withPod = z.object({ spec: z.object({ template: z.object({ spec: pod }) }) });

export class Helm {
  private readonly program = buildGoProgram('helm.sh/helm/v4/cmd/helm', 'v4.3.1');

  /** @throws with what is wrong */
  run(words: readonly string[], input = ''): string {
    const { status, stdout, stderr, error } = spawnSync(this.program, words, { encoding: 'utf8', input });
    // The links of the chart to the alerts and the dashboard are reported each time.
    const lines = stderr.split('\n').filter((line) => !line.includes('found symbolic link'));
    if (status !== 0) throw new Error(error?.message ?? (lines.join('\n').trim() || stdout));
    return stdout;
  }

  /** @param chart a folder or a package */
  renderText(valuesFile: string, { chart = CHART, input = '' } = {}): string {
    return this.run(['template', 'auth', chart, '--namespace', 'auth', '--values', valuesFile], input);
  }

  /** @param values YAML or JSON */
  renderValues(values: string): KubernetesObject[] {
    return parseObjects(this.renderText('-', { input: values }));
  }
}

/** As Kubernetes reads them: by YAML 1.1, in which 0440 is octal. */
export function parseObjects(text: string): KubernetesObject[] {
  const documents = parseAllDocuments(text, { version: '1.1', merge: false });
  return [...documents].flatMap((parsed) => {
    const object: unknown = 'toJS' in parsed ? parsed.toJS() : undefined;
    return object === null || object === undefined ? [] : [document.parse(object)];
  });
}

export function findPod(objects: readonly KubernetesObject[], kind: 'Deployment' | 'Job' | 'Pod'): Pod | undefined {
  const found = objects.find((object) => object.kind === kind);
  if (kind === 'Pod') return found && pod.parse(found.spec);
  return found && withPod.parse(found).spec.template.spec;
}

export function findKind(objects: readonly KubernetesObject[], kind: string): KubernetesObject[] {
  return objects.filter((object) => object.kind === kind);
}

/** @returns what the container of a pod gets: variables, and the content of files by path */
export function resolvePod({ containers: [{ env, volumeMounts }], volumes }: Pod, secrets: Secrets) {
  const variables = Object.fromEntries(env.map(({ name, value }) => [name, value]));
  const files = volumeMounts.flatMap(({ name, mountPath }) => {
    const secret = volumes.find((volume) => volume.name === name)?.secret;
    return (secret?.items ?? []).map(({ key, path }) => {
      const content = secrets[secret?.secretName ?? '']?.[key];
      if (content === undefined) throw new Error(`The Secret ${secret?.secretName} has no ${key}.`);
      return { path: join(mountPath, path), content, mode: secret?.defaultMode ?? 0 };
    });
  });
  return { variables, files };
}
