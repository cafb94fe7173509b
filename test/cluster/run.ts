// The chart on a real API server: Helm installs it with every file of values, and upgrades it. There are no nodes, so that no
// pod runs. Needs Go, Debian's `etcd-server` and `openssl`. The last line counts.
import { deepStrictEqual, notDeepStrictEqual } from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { Checks } from '../../tools/checks.js';
import { downloadGoModule } from '../../tools/go-modules.js';
import { CHART, CRDS, Helm, parseObjects, VALUES_FILES, type KubernetesObject } from '../kubernetes/chart.js';
import { ApiServer } from './api-server.js';

const checks = new Checks();
const NAME = 'auth-platform-auth';
const APPLY = 'application/apply-patch+yaml';
const deployment = z.object({ spec: z.object({ replicas: z.int() }) });
const listed = z.object({
  items: z.array(z.object({ metadata: z.object({ name: z.string(), resourceVersion: z.string() }) })),
});

interface Cluster {
  readonly server: ApiServer;
  readonly helm: Helm;
}

const deployments = (namespace: string): string => `/apis/apps/v1/namespaces/${namespace}/deployments`;
const jobs = (namespace: string): string => `/apis/batch/v1/namespaces/${namespace}/jobs`;

/** Everything that the values name beside the chart. */
async function prepare({ server }: Cluster): Promise<void> {
  for (const [module, version, path] of CRDS) {
    const crd: unknown = parse(readFileSync(join(downloadGoModule(module, version), path), 'utf8'));
    await server.ask('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', crd);
  }
  const priority = { apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', metadata: { name: 'high' }, value: 1 };
  await server.ask('POST', '/apis/scheduling.k8s.io/v1/priorityclasses', priority);
}

async function makeNamespace({ server }: Cluster, name: string): Promise<void> {
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  await server.ask('POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
  for (const account of ['default', 'shared'])
    await server.ask('POST', `/api/v1/namespaces/${name}/serviceaccounts`, { metadata: { name: account } });
}

function upgrade({ helm, server }: Cluster, namespace: string, file: string, ...more: readonly string[]): void {
  const words = ['upgrade', '--install', 'auth', CHART, '--namespace', namespace, '--values', file, ...more];
  helm.run([...words, '--kubeconfig', server.kubeconfig]);
}

/** The pods that a controller would make, or Helm's test: judged by the standard of the namespace, and not kept. */
async function expectPods({ server }: Cluster, namespace: string, objects: readonly KubernetesObject[]): Promise<void> {
  for (const object of objects) {
    const spec = object.spec as { template?: object } | undefined;
    const template = object.kind === 'Pod' ? object : spec?.template;
    if (!template) continue;
    const pod = { ...template, apiVersion: 'v1', kind: 'Pod', metadata: { name: 'judged' } };
    await server.ask('POST', `/api/v1/namespaces/${namespace}/pods?dryRun=All`, pod);
  }
}

async function checkInstalls(cluster: Cluster): Promise<void> {
  const { helm, server } = cluster;
  for (const file of VALUES_FILES) {
    const namespace = basename(file, '-values.yaml');
    await checks.run(
      `${namespace}: is installed, its pods are restricted, and a repeated upgrade changes nothing`,
      async () => {
        await makeNamespace(cluster, namespace);
        upgrade(cluster, namespace, file);
        await expectPods(cluster, namespace, parseObjects(helm.renderText(file)));
        const before = listed.parse(await server.ask('GET', deployments(namespace)));
        upgrade(cluster, namespace, file);
        deepStrictEqual(listed.parse(await server.ask('GET', deployments(namespace))), before);
      },
    );
  }
}

const RESOURCES: Record<string, string> = {
  ServiceAccount: '/api/v1/namespaces/auth/serviceaccounts',
  Role: '/apis/rbac.authorization.k8s.io/v1/namespaces/apps/roles',
  RoleBinding: '/apis/rbac.authorization.k8s.io/v1/namespaces/apps/rolebindings',
  Job: jobs('auth'),
};

async function checkDocumentedJob(cluster: Cluster): Promise<void> {
  await checks.run(
    'the Job of apply in docs/operations/kubernetes.md is accepted, and its pod is restricted',
    async () => {
      for (const namespace of ['auth', 'apps']) await makeNamespace(cluster, namespace);
      const page = readFileSync('docs/operations/kubernetes.md', 'utf8');
      const [, block = ''] = /^```yaml\n(apiVersion: v1\nkind: ServiceAccount\n.+?)^```$/ms.exec(page) ?? [];
      const objects = parseAllDocuments(block, { version: '1.1', merge: false }).map(
        (each) => each.toJS() as KubernetesObject,
      );
      deepStrictEqual(
        objects.map(({ kind }) => kind),
        Object.keys(RESOURCES),
      );
      for (const object of objects) await cluster.server.ask('POST', RESOURCES[object.kind] ?? '', object);
      await expectPods(cluster, 'auth', objects);
    },
  );
}

async function checkChanges(cluster: Cluster): Promise<void> {
  const { server } = cluster;
  await checks.run('the autoscaler takes over without a change of the number of pods', async () => {
    const [path, file] = [`${deployments('minimal')}/${NAME}`, join(CHART, 'ci/minimal-values.yaml')];
    const handover = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: NAME }, spec: { replicas: 3 } };
    await server.ask('PATCH', `${path}?fieldManager=autoscaler`, handover, APPLY);
    upgrade(cluster, 'minimal', file, '--set', 'autoscaling.enabled=true');
    deepStrictEqual(deployment.parse(await server.ask('GET', path)).spec.replicas, 3);
  });
  await checks.run('the Job of a migration is changed where Kubernetes lets it, and made again otherwise', async () => {
    const file = join(CHART, 'ci/job-values.yaml');
    const names = async (): Promise<string[]> =>
      listed.parse(await server.ask('GET', jobs('job'))).items.map(({ metadata }) => metadata.name);
    const before = await names();
    upgrade(cluster, 'job', file, '--set', 'migration.ttlSecondsAfterFinished=600,migration.backoffLimit=3');
    deepStrictEqual(await names(), before);
    upgrade(cluster, 'job', file, '--set', 'image.tag=next');
    notDeepStrictEqual(await names(), before);
  });
}

await checks.around(async (cleanup) => {
  const cluster = { helm: new Helm(), server: await ApiServer.start(cleanup) };
  await prepare(cluster);
  await checkInstalls(cluster);
  await checkChanges(cluster);
  await checkDocumentedJob(cluster);
});
