import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { fromRoot } from '../support/from-root.js';

interface Compose {
  readonly services: Record<string, { env_file?: string; environment: Record<string, string | number> }>;
}

describe('compose.yaml', () => {
  const { services } = parse(readFileSync(fromRoot('compose.yaml'), 'utf8')) as Compose;

  it('passes every variable of .env to the service, and what it sets itself wins', () => {
    const { env_file, environment } = services.auth!;
    expect(env_file).toBe('.env');
    expect(environment).toMatchObject({ NODE_ENV: 'production', HOST: '0.0.0.0', PORT: 7701 });
  });

  it('gives the service no password of another role', () => {
    expect(services.auth!.environment).toMatchObject({ POSTGRES_PASSWORD: '', SERVICE_PASSWORD: '' });
    expect(Object.values(services.auth!.environment).join()).not.toContain('POSTGRES_PASSWORD');
  });
});
