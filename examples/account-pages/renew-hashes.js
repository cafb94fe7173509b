// After a change of a script or a style: node renew-hashes.js login.html … writes its hash into the policy of the page.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

for (const file of process.argv.slice(2)) {
  const page = readFileSync(file, 'utf8');
  const renew = (text, name) => {
    const [, content] = new RegExp(`<${name}[^>]*>([^]*?)</${name}>`).exec(text);
    const hash = createHash('sha256').update(content.replaceAll('\r\n', '\n')).digest('base64');
    return text.replace(new RegExp(`(${name}-src 'sha256-)[^']*`), `$1${hash}`);
  };
  writeFileSync(file, ['script', 'style'].reduce(renew, page));
}
