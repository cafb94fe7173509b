// Writes the software bill of materials of production (CycloneDX 1.5, JSON): the packages in dist/service/ and those
// installed beside it, from package-lock.json, the same on every machine and without the address of a registry. Node.js
// 24 runs this file while the image is built, and strips its types.
// npm run sbom -- [file]        default: dist/sbom.cdx.json
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { z } from 'zod';

const DEFAULT_FILE = 'dist/sbom.cdx.json';
const FLAGS = ['--sbom-format=cyclonedx', '--sbom-type=application', '--package-lock-only'];

const component = z.object({ name: z.string(), 'bom-ref': z.string() });
const bill = z.object({
  metadata: z.object({ component }),
  components: z.array(component),
  dependencies: z.array(z.object({ ref: z.string(), dependsOn: z.array(z.string()) })),
});
const manifest = z.object({ name: z.string(), dependencies: z.record(z.string(), z.string()) });
const flag = z.boolean().optional();
const lockedPackage = z.object({ version: z.string().optional(), dev: flag, optional: flag, devOptional: flag });
const lock = z.object({ packages: z.record(z.string(), lockedPackage) });

const { name, dependencies } = manifest.parse(readJson('package.json'));
const written = execFileSync('npm', ['sbom', ...FLAGS], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
const sbom: unknown = JSON.parse(written);
if (!isBill(sbom)) throw new Error('npm wrote no bill of materials');
const self = sbom.metadata.component;
// npm would use the name of the folder.
self.name = name;
const installed = listInstalled();
const isInstalled = (reference: string): boolean => installed.has(reference) || reference === self['bom-ref'];
sbom.components = sbom.components.filter((one) => isInstalled(one['bom-ref']));
sbom.dependencies = sbom.dependencies
  .filter(({ ref }) => isInstalled(ref))
  .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter(isInstalled) }));
const listed = new Set(sbom.components.map((one) => one.name));
const missing = Object.keys(dependencies).filter((dependency) => !listed.has(dependency));
if (missing.length > 0) throw new Error(`The bill of materials lacks ${missing.join(', ')}`);

const file = process.argv[2] ?? DEFAULT_FILE;
mkdirSync(dirname(file), { recursive: true });
writeFileSync(file, `${JSON.stringify(sbom, null, 2)}\n`);
console.log(`${sbom.components.length} packages: ${file}`);

/** Checks without copying, so that everything else that npm wrote stays. */
function isBill(value: unknown): value is z.output<typeof bill> {
  return bill.safeParse(value).success;
}

/** Not by `--omit` of npm sbom, which also drops the peers of a dropped package, such as Express. */
function listInstalled(): ReadonlySet<string> {
  const { packages } = lock.parse(readJson('package-lock.json'));
  const bundled = new Set(z.array(z.string()).parse(readJson('dist/bundled-packages.json')));
  const production = Object.entries(packages).filter(
    ([path, { dev, optional, devOptional }]) =>
      path !== '' && (bundled.has(path) || (!dev && !optional && !devOptional)),
  );
  return new Set(production.map(([path, { version }]) => `${path.split('node_modules/').at(-1)}@${version}`));
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'));
}
