import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { buildGoProgram } from '../../tools/go-modules.js';

export const CHART = 'deploy/helm/platform-auth';
/** Files of values that the chart is rendered with. */
export const VALUES_FILES = readdirSync(join(CHART, 'ci')).map((name) => join(CHART, 'ci', name));

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
  env: z.array(z.object({ name: z.string(), value: z.string().optional(), valueFrom: z.unknown().optional() })),
  ports: z.array(z.object({ name: z.string(), containerPort: z.int() })).default([]),
  volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })).default([]),
  securityContext: z.unknown(),
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
  containers: z.tuple([container]),
  volumes: z.array(z.object({ name: z.string(), secret: secretVolume.optional() })).default([]),
  automountServiceAccountToken: z.boolean(),
  enableServiceLinks: z.boolean(),
  terminationGracePeriodSeconds: z.int().optional(),
  securityContext: z.looseObject({ runAsUser: z.int(), runAsGroup: z.int() }),
});
export type Pod = z.output<typeof pod>;
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

export function findPod(objects: readonly KubernetesObject[], kind: 'Deployment' | 'Job'): Pod | undefined {
  const found = objects.find((object) => object.kind === kind);
  return found && withPod.parse(found).spec.template.spec;
}

export function findKind(objects: readonly KubernetesObject[], kind: string): KubernetesObject[] {
  return objects.filter((object) => object.kind === kind);
}
