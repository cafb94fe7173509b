import { parseEnvironment, type Environment, type Variables } from '../../src/config/environment.js';
import { MAIL_VARIABLES } from '../support/mail-server.js';
import { VARIABLES } from '../support/settings.js';

const parse = (variables: Variables): Environment =>
  parseEnvironment({ ...VARIABLES, DATABASE_URL: 'postgresql://db', ...variables });
const parseUrl = (url: string) => parse({ ...MAIL_VARIABLES, MAIL_URL: url }).mailUrl;
const problemOf = (variables: Variables): string => {
  try {
    parse(variables);
    return '';
  } catch (error) {
    return (error as Error).message;
  }
};

describe('MAIL_URL', () => {
  it.each([
    ['smtps://u:p@mail.example.org', 465, 'implicit'],
    ['smtp://mail.example.org', 587, 'starttls'],
    ['smtp://mail.example.org:25?tls=off', 25, 'off'],
    ['smtp://localhost', 587, 'off'],
    ['smtp://127.0.0.1:1025', 1025, 'off'],
    ['smtp://[::1]:1025', 1025, 'off'],
    ['smtp://127.0.0.1?tls=required', 587, 'starttls'],
    ['smtp://127.evil.example.org', 587, 'starttls'],
  ])('%s means port %i and TLS %s', (url, port, tls) => {
    expect(parseUrl(url)).toMatchObject({ port, tls });
  });

  it('has a percent-encoded user and password', () => {
    expect(parseUrl('smtps://user%40host:p%3A%2F@mail.example.org')?.login).toEqual({
      user: 'user@host',
      password: 'p:/',
    });
  });

  it.each([
    'mail.example.org',
    'http://mail.example.org',
    'smtp://',
    'smtp://u@mail.example.org',
    'smtp://u:canary%@mail.example.org',
    'smtp://mail.example.org/path',
    'smtp://mail.example.org?tls=maybe',
    'smtp://mail.example.org?ignoreTLS=true',
    'smtp://mail.example.org?tls=off&tls=required',
    'smtps://u:canary@mail.example.org?tls=off',
  ])('refuses %s by its name, and does not show it', (url) => {
    const problem = problemOf({ ...MAIL_VARIABLES, MAIL_URL: url });
    expect(problem).toMatch(/^ {2}- MAIL_URL must be smtp/m);
    expect(problem).not.toMatch(/canary|mail\.example/);
  });

  it.each(['MAIL_FROM', 'PASSWORD_RESET_URL', 'EMAIL_VERIFICATION_URL'])('needs %s, and says so', (name) => {
    const problem = problemOf({ ...MAIL_VARIABLES, MAIL_URL: 'smtp://localhost', [name]: '' });
    expect(problem).toContain(`${name} must be set when MAIL_URL is`);
  });

  it.each([
    ['MAIL_FROM', 'no address'],
    ['MAIL_FROM', 'A <a@example.org>, B <b@example.org>'],
    ['MAIL_FROM', 'A\r\nBcc: x <a@example.org>'],
    ['PASSWORD_RESET_URL', 'javascript:alert(1)'],
    ['PASSWORD_RESET_URL', 'https://app.example.org/#/reset'],
    ['EMAIL_VERIFICATION_URL', 'app.example.org'],
    ['MAIL_TEMPLATES_DIR', '/does/not/exist'],
  ])('%s refuses %j', (name, value) => {
    expect(problemOf({ ...MAIL_VARIABLES, MAIL_URL: 'smtp://localhost', [name]: value })).toContain(name);
  });

  it('may be unset; REQUIRE_VERIFIED_EMAIL then stops a start in production', () => {
    const production = { NODE_ENV: 'production', REQUIRE_VERIFIED_EMAIL: 'true' };
    expect(problemOf(production)).toContain('REQUIRE_VERIFIED_EMAIL needs MAIL_URL in production');
    expect(problemOf({ ...production, REQUIRE_VERIFIED_EMAIL: 'false' })).toBe('');
    expect(problemOf({ REQUIRE_VERIFIED_EMAIL: 'true' })).toBe('');
  });
});
