import { randomUUID } from 'node:crypto';
import { OperatorPasskeys } from '../../../src/domain/operators/operator-passkeys.service.js';
import type { Actor } from '../../../src/foundation/access/actor.js';
import { computeDigest } from '../../../src/foundation/crypto/secret.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { useCli } from '../../support/cli.js';
import { expectProblem } from '../../support/expect-problem.js';
import { UNLEASED } from '../../support/settings.js';
import type { NamedOperator } from '../../support/test-app.js';
import { useApp } from '../../support/use-app.js';
import { recorded } from '../audit/record.js';
import { Authenticator } from '../second-factors/authenticator.js';

const app = useApp({ variables: UNLEASED });
const cli = useCli(app);
const ACTOR: Actor = { door: 'admin', id: null, requestId: null, address: null };
const service = (): OperatorPasskeys => app.nest.get(OperatorPasskeys, { strict: false });

const toIdentity = ({ id, key }: Pick<NamedOperator, 'id' | 'key'>) => ({ id, keyDigest: computeDigest(key) });

const createOptions = async ({ id }: NamedOperator) =>
  (await service().createPasskeyOptions((await service().readOwner(id))!)) as {
    challenge: string;
    user: { id: string };
  };

const register = async (operator: NamedOperator, authenticator = new Authenticator()) => {
  const answer = authenticator.create(await createOptions(operator));
  return service().registerPasskey(toIdentity(operator), { name: 'phone', answer }, ACTOR);
};

const expectInvalid = async (registration: Promise<unknown>) =>
  expect(await registration.catch((error: unknown) => error)).toMatchObject({
    problem: problems.validationFailed,
    occurrence: { errors: [{ pointer: '/passkey' }] },
  });

describe('the passkeys of an operator', () => {
  it('are listed and removed by operators who may manage the operator, and by no other', async () => {
    const [operator, other] = [await app.operator(['nodes', 'users']), await app.operator(['operators', 'nodes'])];
    const { id } = await register(operator);
    const path = `/operators/${operator.id}/passkeys`;
    const listed = { id, name: 'phone', is_synced: false, created_at: expect.any(String), last_used_at: null };
    expect((await app.admin.get(path).expect(200)).body).toEqual({ items: [listed] });
    expectProblem(await other.as().delete(`${path}/${id}`), problems.exceedsOwnRights);
    for (const unknown of [randomUUID(), 'x'])
      expectProblem(await app.admin.delete(`${path}/${unknown}`), problems.notFound);
    expectProblem(await app.admin.delete(`/operators/${other.id}/passkeys/${id}`), problems.notFound);
    expectProblem(await app.admin.get(`/operators/${randomUUID()}/passkeys`), problems.notFound);
    await app.admin.delete(`${path}/${id}`).expect(204);
    expect((await app.admin.get(path).expect(200)).body).toEqual({ items: [] });
    const details = { passkey_id: id };
    expect(await recorded(app, { subject: operator.id, event: 'operator.passkey.added' })).toMatchObject([{ details }]);
    expect(await recorded(app, { subject: operator.id, event: 'operator.passkey.removed' })).toMatchObject([
      { details, actor: { door: 'admin' } },
    ]);
  });

  it('are listed and removed on the command line', async () => {
    const operator = await app.operator(['nodes']);
    const { id } = await register(operator);
    expect(await cli.ok(`operators passkeys ${operator.name}`)).toMatch(/phone/);
    expect(await cli.fails(`operators remove-passkey ${operator.name} ${id}`)).toMatch(/Add --yes to confirm/);
    expect(await cli.ok(`operators remove-passkey ${operator.name} ${id} --yes`)).toMatch(
      /^The passkey of .* is removed/,
    );
    expect(await cli.ok(`operators passkeys ${operator.name}`)).toBe('none\n');
  });

  it('leave the API to the key alone', async () => {
    const operator = await app.operator(['nodes']);
    await register(operator);
    await operator.as().get('/nodes').expect(200);
  });

  it('are asked for by options that demand a PIN or a fingerprint', async () => {
    const operator = await app.operator();
    const { id } = await register(operator);
    expect(await createOptions(operator)).toMatchObject({
      user: { name: operator.name },
      authenticatorSelection: { residentKey: 'discouraged', userVerification: 'required' },
      excludeCredentials: [{ type: 'public-key' }],
    });
    const answered = await service().createAnswerOptions('operator_login', (await service().readOwner(operator.id))!);
    expect(answered).toMatchObject({ userVerification: 'required', allowCredentials: [{ type: 'public-key' }] });
    await app.admin.delete(`/operators/${operator.id}/passkeys/${id}`).expect(204);
  });

  it.each([
    [
      'that verified no person',
      async (operator: NamedOperator) => register(operator, new Authenticator({ verifiesUser: false })),
    ],
    [
      'of another origin',
      async (operator: NamedOperator) => register(operator, new Authenticator({ origin: 'https://evil.example' })),
    ],
    [
      'after the key was rotated',
      async (operator: NamedOperator) => {
        const answer = new Authenticator().create(await createOptions(operator));
        await app.admin.post(`/operators/${operator.id}/rotate`, {}).expect(200);
        return service().registerPasskey(toIdentity(operator), { name: 'phone', answer }, ACTOR);
      },
    ],
    [
      'to the options of another operator',
      async (operator: NamedOperator) => {
        const answer = new Authenticator().create(await createOptions(await app.operator()));
        return service().registerPasskey(toIdentity(operator), { name: 'phone', answer }, ACTOR);
      },
    ],
    [
      'after 5 minutes',
      async (operator: NamedOperator) => {
        const answer = new Authenticator().create(await createOptions(operator));
        app.clock.advance({ minutes: 5, seconds: 6 });
        return service().registerPasskey(toIdentity(operator), { name: 'phone', answer }, ACTOR);
      },
    ],
    [
      'that was sent before',
      async (operator: NamedOperator) => {
        const answer = new Authenticator().create(await createOptions(operator));
        const send = () => service().registerPasskey(toIdentity(operator), { name: 'phone', answer }, ACTOR);
        const { id } = await send();
        await app.admin.delete(`/operators/${operator.id}/passkeys/${id}`).expect(204);
        return send();
      },
    ],
  ])('are not added by an answer %s', async (_name, act) => {
    const operator = await app.operator();
    await expectInvalid(act(operator));
    expect(await service().listPasskeys(operator.id)).toEqual([]);
  });

  it('belong to one operator each, and are 20 at most', async () => {
    const [one, other] = [await app.operator(), await app.operator()];
    const authenticator = new Authenticator();
    await register(one, authenticator);
    await expect(register(other, authenticator)).rejects.toMatchObject({ problem: problems.passkeyExists });
    for (let count = 1; count < 20; count += 1) await register(one);
    await expect(register(one)).rejects.toMatchObject({ problem: problems.tooManyPasskeys });
  });
});
