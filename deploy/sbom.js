// Writes the software bill of materials of what runs in production (CycloneDX 1.5, JSON), from package-lock.json alone:
// the same for every machine, and without the address of a registry.
//   node deploy/sbom.js [file]        default: dist/sbom.cdx.json
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const root = join(import.meta.dirname, '..');
const file = process.argv[2] ?? join(root, 'dist/sbom.cdx.json');
const FLAGS = ['--sbom-format=cyclonedx', '--sbom-type=application', '--package-lock-only'];

const read = (path) => JSON.parse(readFileSync(join(root, path), 'utf8'));
const written = execFileSync('npm', ['sbom', ...FLAGS], {
  cwd: root,
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'ignore'],
});
const sbom = JSON.parse(written);
const { name, dependencies } = read('package.json');

// npm takes the name of the folder.
sbom.metadata.component.name = name;
// Not by `--omit` of npm sbom, which also leaves out what is a peer of an omitted package, such as Express.
const installed = new Set(
  Object.entries(read('package-lock.json').packages)
    .filter(([path, { dev, optional, devOptional }]) => path !== '' && !dev && !optional && !devOptional)
    .map(([path, { version }]) => `${path.split('node_modules/').at(-1)}@${version}`),
);
const isInstalled = (reference) => installed.has(reference) || reference === sbom.metadata.component['bom-ref'];
sbom.components = sbom.components.filter((component) => isInstalled(component['bom-ref']));
sbom.dependencies = sbom.dependencies
  .filter(({ ref }) => isInstalled(ref))
  .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter(isInstalled) }));
const listed = new Set(sbom.components.map((component) => component.name));
const missing = Object.keys(dependencies).filter((dependency) => !listed.has(dependency));
if (missing.length > 0) throw new Error(`The bill of materials lacks ${missing.join(', ')}`);

mkdirSync(dirname(file), { recursive: true });
writeFileSync(file, `${JSON.stringify(sbom, null, 2)}\n`);
console.log(`${sbom.components.length} packages: ${file}`);
