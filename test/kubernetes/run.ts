// The chart of deploy/helm: its values are rendered by the real Helm, and validated against the schemas of Kubernetes and of
// the CRDs. Needs Go and Python 3.11 with venv, whose packages are installed at the first use, and `promtool`. The last line
// counts. What its pods run is run by test/image.
import { deepStrictEqual, match, ok, throws } from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { parseEnvironment, readSecretFiles } from '../../src/foundation/config/environment.js';
import { describeIgnoredVariables } from '../../src/bootstrap/ignored-variables.js';
import { renewChartFiles } from '../../tools/chart-text.js';
import { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { downloadGoModule } from '../../tools/go-modules.js';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import { prepareVenv } from '../../tools/python-venv.js';
import {
  CHART,
  CRDS,
  findKind,
  findPod,
  Helm,
  parseObjects,
  resolvePod,
  VALUES_FILES,
  type KubernetesObject,
  type Secrets,
} from './chart.js';
import { expectPromises } from './expectations.js';
import { REFUSALS } from './refusals.js';

const VALIDATOR = 'kubernetes-validate==1.37.0';
const validation = z.object({ versions: z.array(z.string()), problems: z.array(z.string()) });

const makeSecret = (): string => randomBytes(32).toString('hex');

/** Every key that a Secret may have. */
const ANY_SECRET = {
  DATABASE_URL: 'postgresql://auth:password@postgres:5432/auth',
  uri: 'postgresql://auth:password@postgres:5432/auth',
  url: 'postgresql://auth:password@postgres:5432/auth',
  SECRET_KEY: makeSecret(),
  SECRET_KEY_PREVIOUS: makeSecret(),
  MASTER_KEY: makeSecret(),
  MASTER_KEY_PREVIOUS: makeSecret(),
  ADMIN_API_KEY: makeSecret(),
  AUDIT_SEAL_KEY: makeSecret(),
  MAIL_URL: 'smtps://auth:password@mail:465',
  LOGGING_APP_KEY: 'pa_app_key',
  'ca.crt': 'certificate',
};
const checks = new Checks();

/** The service's own check of its configuration, with the variables and the files that a pod would have. */
function expectAccepted(objects: readonly KubernetesObject[], folder: string): void {
  const pod = findPod(objects, 'Deployment');
  if (!pod) throw new Error('There is no Deployment.');
  const names = pod.volumes.flatMap(({ secret }) => (secret ? [secret.secretName] : []));
  const secrets: Secrets = Object.fromEntries(names.map((name) => [name, ANY_SECRET]));
  const { variables, files } = resolvePod(pod, secrets);
  for (const [name, value] of Object.entries(variables)) {
    const file = files.find(({ path }) => path === value);
    ok(file !== undefined || !name.endsWith('_FILE'), `${name} names a file that is not mounted`);
    if (file === undefined) continue;
    variables[name] = join(folder, basename(file.path));
    writeFileSync(join(folder, basename(file.path)), file.content);
  }
  const given = readSecretFiles(variables);
  parseEnvironment(given);
  deepStrictEqual(describeIgnoredVariables(given, given), undefined);
}

/** Writes the complete values that docs/operations/kubernetes.md shows into files. @returns their paths */
function writeDocumentedValues(folder: string): string[] {
  const page = readFileSync('docs/operations/kubernetes.md', 'utf8');
  const blocks = [...page.matchAll(/^```yaml\n(image: .+?)^```$/gms)].map(([, block = '']) => block);
  return blocks.map((block, index) => {
    const file = join(folder, `kubernetes.md-${index + 1}-values.yaml`);
    writeFileSync(file, block);
    return file;
  });
}

/** @returns what each file of values renders */
async function checkRenders(helm: Helm, folder: string): Promise<Map<string, KubernetesObject[]>> {
  const renders = new Map<string, KubernetesObject[]>();
  for (const file of [...VALUES_FILES, ...writeDocumentedValues(folder)]) {
    await checks.run(`${basename(file)} is linted, renders the same twice, and keeps the promises`, () => {
      helm.run(['lint', '--strict', CHART, '--values', file]);
      const text = helm.renderText(file);
      deepStrictEqual(helm.renderText(file), text);
      const objects = parseObjects(text);
      renders.set(basename(file), objects);
      expectPromises(objects, file.includes('insecure'));
      expectAccepted(objects, folder);
    });
  }
  return renders;
}

async function checkPackage(helm: Helm, folder: string): Promise<void> {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  await checks.run('the package has the version of the service, and renders what the folder does', () => {
    match(helm.run(['show', 'chart', CHART]), new RegExp(`^appVersion: ${version}$`, 'm'));
    helm.run(['package', CHART, '--destination', folder]);
    const values = join(CHART, 'ci/monitoring-values.yaml');
    const chart = join(folder, `platform-auth-${version}.tgz`);
    deepStrictEqual(helm.renderText(values, { chart }), helm.renderText(values));
  });
}

async function checkSchemas(renders: ReadonlyMap<string, KubernetesObject[]>): Promise<void> {
  const python = prepareVenv({
    folder: resolve('node_modules/.cache/kubernetes-validate'),
    packages: [VALIDATOR],
    manifest: VALIDATOR,
    imports: ['kubernetes_validate.utils', 'yaml'],
  });
  const validate = (documents: object[]): z.output<typeof validation> => {
    const crds = CRDS.map(([module, version, path]) => join(downloadGoModule(module, version), path));
    const input = JSON.stringify({ documents, crds });
    const output = execFileSync(python, ['test/kubernetes/validate.py'], { input, encoding: 'utf8', maxBuffer: 1e8 });
    return validation.parse(JSON.parse(output));
  };
  const documents = [...renders].flatMap(([file, objects]) =>
    objects.map((document) => ({ name: `${file} ${document.kind} ${document.metadata.name}`, document })),
  );
  await checks.run(`${documents.length} objects are valid for the newest two versions of Kubernetes`, () => {
    const { versions, problems } = validate(documents);
    deepStrictEqual(problems, []);
    console.log(`  Kubernetes ${versions.join(' and ')}`);
  });
  await checks.run('an unknown field of each kind would be found', () => {
    const kinds = new Map(documents.map(({ document }) => [document.kind, document]));
    const wrong = [...kinds].map(([name, document]) => ({ name, document: { ...document, unknownField: 1 } }));
    const found = validate(wrong).problems.map((problem) => problem.split(':')[0]);
    deepStrictEqual([...new Set(found)].sort(), [...kinds.keys()].sort());
  });
}

async function checkRefusals(helm: Helm): Promise<void> {
  await checks.run('refuses equal ports of which one is given by --set', () => {
    const words = ['template', 'auth', CHART, '--values', join(CHART, 'ci/minimal-values.yaml')];
    throws(() => helm.run([...words, '--set', 'ports.internal=7701']), /ports must differ/);
  });
  const smallest = parse(readFileSync(join(CHART, 'ci/minimal-values.yaml'), 'utf8')) as object;
  for (const [what, values, answer] of REFUSALS) {
    await checks.run(`refuses ${what}`, () =>
      throws(
        () => helm.renderValues(JSON.stringify({ ...smallest, ...values })),
        ({ message }: Error) => {
          ok(message.includes(answer), message);
          return true;
        },
      ),
    );
  }
}

async function checkMonitoring(objects: readonly KubernetesObject[], folder: string): Promise<void> {
  const [rule] = findKind(objects, 'PrometheusRule');
  await checks.run('the rendered alerts are those of deploy/prometheus, and promtool accepts them', () => {
    deepStrictEqual(rule?.spec, parse(readFileSync('deploy/prometheus/alerts.yml', 'utf8')));
    const file = join(folder, 'rules.yml');
    writeFileSync(file, JSON.stringify(rule?.spec));
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', file], { encoding: 'utf8' });
    match(`${status} ${stdout}${stderr}`, /^0 .*SUCCESS: \d+ rules/s);
  });
  await checks.run('the rendered dashboard is that of deploy/grafana', () => {
    const [dashboard] = findKind(objects, 'ConfigMap') as (KubernetesObject & { data: Record<string, string> })[];
    const text = readFileSync('deploy/grafana/platform-auth.json', 'utf8');
    deepStrictEqual(JSON.parse(dashboard?.data['platform-auth.json'] ?? ''), JSON.parse(text));
  });
}

async function checkJobs(helm: Helm, renders: ReadonlyMap<string, KubernetesObject[]>): Promise<void> {
  const [job] = findKind(renders.get('job-values.yaml') ?? [], 'Job');
  await checks.run('a Job with another image has another name, because a Job cannot be changed', () => {
    const text = helm.renderText(join(CHART, 'ci/job-values.yaml'));
    const values = readFileSync(join(CHART, 'ci/job-values.yaml'), 'utf8');
    const [other] = findKind(helm.renderValues(values.replace('image: {', 'image: { tag: next,')), 'Job');
    ok(text.includes(`name: ${job?.metadata.name}\n`));
    ok(other && other.metadata.name !== job?.metadata.name);
  });
  await checks.run('the cluster replicates synchronously, and only over TLS', () => {
    const [cluster] = findKind(renders.get('cluster-values.yaml') ?? [], 'Cluster');
    const spec = z
      .object({ instances: z.int(), postgresql: z.looseObject({ synchronous: z.unknown(), pg_hba: z.unknown() }) })
      .parse(cluster?.spec);
    deepStrictEqual(spec.postgresql.synchronous, { method: 'any', number: 1, dataDurability: 'required' });
    deepStrictEqual([spec.instances, spec.postgresql.pg_hba], [3, ['hostnossl all all all reject']]);
  });
}

await checks.around(async (cleanup: Cleanup) => {
  const folder = makeTemporaryFolder(cleanup, 'kubernetes');
  const helm = new Helm();
  await checks.run('README.md and values.schema.json are written by npm run docs:chart', async () => {
    for (const [path, text] of Object.entries(await renewChartFiles()))
      deepStrictEqual(readFileSync(path, 'utf8'), text);
  });
  const renders = await checkRenders(helm, folder);
  await checkPackage(helm, folder);
  await checkSchemas(renders);
  await checkRefusals(helm);
  await checkMonitoring(renders.get('monitoring-values.yaml') ?? [], folder);
  await checkJobs(helm, renders);
});
