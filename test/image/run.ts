// The image of the Dockerfile: buildah builds it, and runc starts it as the pods that the chart renders, against a real
// PostgreSQL. Needs root, Debian's `buildah`, `runc` and `openssl`, npm's registry, and Go for Helm. The last line counts.
import { deepStrictEqual, match } from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Checks } from '../../tools/checks.js';
import { buildImage, findObstacle } from './image.js';
import { checkPods } from './service.js';

const checks = new Checks();

await checks.around(async (cleanup) => {
  const obstacle = findObstacle();
  if (obstacle !== undefined) {
    checks.skip('the image', obstacle);
    return;
  }
  const image = buildImage(cleanup);
  await checks.run('the image is built, and has the bill of materials of its packages', () => {
    const { name } = JSON.parse(readFileSync('package.json', 'utf8')) as { name: string };
    const bill: unknown = JSON.parse(readFileSync(join(image.root, 'app/dist/sbom.cdx.json'), 'utf8'));
    match(JSON.stringify(bill), new RegExp(`"component":\\{[^}]*"name":"${name}"`));
    deepStrictEqual(image.user, 'node');
  });
  await checkPods(checks, cleanup, image);
});
