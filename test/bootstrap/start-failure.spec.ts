import { describeStartFailure } from '../../src/bootstrap/start-report.js';

const failure = (code: string, fields: object = {}) =>
  Object.assign(new Error(`${code}: what the system says, open '.env'`), { code, ...fields });

describe('the message of a failed start', () => {
  it.each([
    ['a port below 1024', failure('EACCES', { variable: 'PORT', port: 80 }), /^PORT 80 .*above 1023/],
    ['an address of another machine', failure('EADDRNOTAVAIL', { variable: 'PORT', port: 7701 }), /^HOST /],
    ['a taken port', failure('EADDRINUSE', { variable: 'PORT', port: 7701 }), /^Port 7701 is taken.*PORT=7702/],
    ['a taken port of the metrics', failure('EADDRINUSE', { variable: 'METRICS_PORT', port: 9464 }), /METRICS_PORT/],
    ['a database that refuses', failure('ECONNREFUSED'), /^The database at DATABASE_URL refuses/],
    ['an unknown database host', failure('ENOTFOUND'), /^The host in DATABASE_URL is not known/],
    ["another user's folder", failure('EACCES'), /open '\.env'.*set SECRET_KEY, ADMIN_API_KEY and DATABASE_URL/],
    ['a read-only file system', failure('EROFS'), /start it in a folder of your own/],
    ['anything else', new Error('what it was'), /^The service could not start: what it was$/],
  ])('names the cause and the remedy: %s', (_what, error, expected) => {
    expect(describeStartFailure(error)).toMatch(expected);
  });
});
