import { problems } from '../../src/common/problems.js';
import { Readiness } from '../../src/health/readiness.js';
import { TestApp } from '../support/test-app.js';
import { freePort } from '../../src/embedded-postgres/free-port.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';

describe('GET /health', () => {
  let database: TestDatabase;
  let app: TestApp;

  beforeEach(async () => {
    database = await createTestDatabase();
    app = await TestApp.start({ database });
  });

  afterEach(async () => {
    await app.stop();
    await database.drop();
  });

  it('is 200 while the database answers, and open to everyone', async () => {
    const { body } = await app.get('/health').expect(200);
    expect(body).toMatchObject({ status: 'ok', details: { database: { status: 'up' }, service: { status: 'up' } } });
    await app.get('/health/live').expect(200, { status: 'ok' });
  });

  it('is 503 with Retry-After without the database, says nothing of the driver, and the process lives', async () => {
    await database.drop();
    const answer = await app.get('/health').expect(503);
    expect(answer.headers['retry-after']).toBe(String(problems.unavailable.retryAfterSeconds));
    expect(answer.body).toMatchObject({ status: 'error', error: { database: { status: 'down' } } });
    const { hostname, port, pathname } = new URL(database.url);
    for (const told of [pathname.slice(1), `${hostname}:${port}`, 'does not exist', 'postgres', 'SELECT']) {
      expect(answer.text).not.toContain(told);
    }
    await app.get('/health/live').expect(200, { status: 'ok' });
  });

  it('is 503 while the service drains, which still answers', async () => {
    app.nest.get(Readiness).drain();
    expect((await app.get('/health').expect(503)).body).toMatchObject({ details: { service: { status: 'down' } } });
    await app.get('/health/live').expect(200);
    expect((await app.validateNode('a:b')).status).toBe(401);
  });

  it('shows that the logging service is down, and stays 200', async () => {
    const LOGGING_SERVICE_URL = `http://127.0.0.1:${await freePort()}/logs`;
    const shipping = await TestApp.start({ database, variables: { LOGGING_SERVICE_URL, LOG_LEVEL: 'info' } });
    await shipping.get('/health/live').expect(200);
    await shipping.log.flush();
    const { body, text } = await shipping.get('/health').expect(200);
    expect(body).toMatchObject({ details: { database: { status: 'up' }, logging_service: { status: 'degraded' } } });
    expect(text).not.toContain(LOGGING_SERVICE_URL);
    await shipping.stop();
  });

  it('is never kept by a cache, up or down', async () => {
    expect((await app.get('/health')).headers['cache-control']).toBe('no-store');
    app.nest.get(Readiness).drain();
    expect((await app.get('/health')).headers['cache-control']).toBe('no-store');
  });
});
