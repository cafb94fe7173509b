import { judge, readPollAnswer } from '../src/answers.js';

const answer = (status: number, body: string) => ({ status, headers: {}, body });

describe('a mistake in the configuration', () => {
  it('says what to do about a key that is not valid', () => {
    expect(judge('node', answer(401, '{"code":"invalid_app_credentials"}'))).toMatchObject({
      detail: expect.stringMatching(/^401: invalid_app_credentials \(.*rotated or revoked. Run platform-auth apply/),
    });
  });

  it.each(['{"code":"not_found"}', '<html>'])('says what to do about a wrong address: %s', (body) => {
    const detail = expect.stringMatching(/^404: .*AUTH_URL must be the address of platform-auth/);
    expect(judge('app', answer(404, body))).toMatchObject({ detail });
    expect(readPollAnswer(answer(404, body))).toMatchObject({ detail });
  });
});
