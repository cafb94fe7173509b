/** The login and the logout. */
import { Get, Post, Query, Req, Res, UseFilters } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { VNode } from 'preact';
import { AdminDoor } from '../api/admin/admin.door.js';
import {
  OperatorPasskeys,
  type PasskeyOwner,
  type VerifiedAnswer,
} from '../domain/operators/operator-passkeys.service.js';
import { toActor } from '../foundation/access/actor.js';
import type { AdminPrincipal } from '../foundation/access/principals.js';
import { Public } from '../foundation/access/route-decorators.js';
import { Environment } from '../foundation/config/environment.js';
import { computeDigest, isSameDigest, type SecretDigest } from '../foundation/crypto/secret.js';
import { Throttle } from '../foundation/throttling/throttle.js';
import { LOGIN, toNextPage } from './addresses.js';
import { ConsoleErrorFilter } from './console-error.filter.js';
import { ConsoleController, ConsolePages } from './console-pages.js';
import { ConsoleRefusalError, getSession, keepForm, readFields } from './console-requests.js';
import { ConsoleSessions } from './console-sessions.js';
import { Field } from './fields.js';
import { ForeignForms } from './foreign-forms.js';
import { Page, redirect, sendPage } from './page.js';
import { PasskeyPrompts } from './passkey-prompts.js';
import { readCookie, setCookie } from './session-cookie.js';

@UseFilters(ConsoleErrorFilter)
@ConsoleController(LOGIN)
export class LoginPage {
  constructor(
    private readonly door: AdminDoor,
    private readonly passkeys: OperatorPasskeys,
    private readonly prompts: PasskeyPrompts,
    private readonly sessions: ConsoleSessions,
    private readonly throttle: Throttle,
    private readonly foreignForms: ForeignForms,
    private readonly environment: Environment,
  ) {}

  @Get()
  @Public()
  showLogin(@Req() request: Request, @Res() response: Response, @Query() query: Record<string, unknown>): void {
    // Refused, so that no operator gets used to a key in an address, which browsers and proxies keep.
    const advice = 'Type the key into the form: an address is kept by browsers and proxies.';
    if (Object.keys(query).some((name) => name !== 'next'))
      throw new ConsoleRefusalError(400, 'Not in the address bar', advice);
    readCookie(request);
    sendPage(response, this.renderLogin(query.next));
  }

  /** After a refusal without the key that was typed, which no page repeats. */
  private renderLogin(next: unknown, isRefused = false): VNode {
    return (
      <Page title={isRefused ? 'The key is not valid' : 'Log in'} label={this.environment.consoleLabel}>
        <form method="post" action={LOGIN}>
          <input type="hidden" name="next" value={toNextPage(next)} />
          <Field
            label="Key"
            name="key"
            type="password"
            isRequired
            hint="Your operator's key, or the root key ADMIN_API_KEY."
            error={isRefused ? 'is not valid. Check that it is whole, and of this service' : undefined}
          />
          <button type="submit">Log in</button>
        </form>
      </Page>
    );
  }

  /** A wrong key is throttled, counted and audited as at the admin door. */
  @Post()
  @Public()
  async logIn(@Req() request: Request, @Res() response: Response): Promise<void> {
    await this.foreignForms.refuseOtherOrigin(request);
    const { key: typed = '', next } = readFields(request);
    keepForm(request, () => this.renderLogin(next, true));
    const key = typed.trim();
    readCookie(request);
    const principal = await this.door.verifyAdminKey(key, () => toActor(request));
    const owner = principal.operator ? await this.passkeys.readOwner(principal.operator.id) : undefined;
    const keyDigest = computeDigest(key);
    if (owner && !isSameDigest(owner.keyDigest, keyDigest)) {
      const advice =
        'A rotation replaced this key. Programs may use it until the rotation ends; log in with the new one.';
      throw new ConsoleRefusalError(401, 'The key was replaced', advice);
    }
    if (owner && owner.passkeys.length > 0) await this.askForPasskey(request, response, owner);
    else await this.begin(request, response, principal, keyDigest);
  }

  private async askForPasskey(request: Request, response: Response, owner: PasskeyOwner): Promise<void> {
    sendPage(
      response,
      <Page title="Your passkey" label={this.environment.consoleLabel}>
        <form method="post" action={`${LOGIN}/passkey`} data-once>
          <input type="hidden" name="next" value={toNextPage(readFields(request).next)} />
          {await this.prompts.renderProof(request, 'operator_login', owner)}
          <button type="submit">Continue</button>
        </form>
      </Page>,
    );
  }

  /** Its question is the proof of the key, which the browser does not send again. */
  @Post('passkey')
  @Public()
  async logInWithPasskey(@Req() request: Request, @Res() response: Response): Promise<void> {
    await this.foreignForms.refuseOtherOrigin(request);
    const verified = await this.prompts.verifyProof(request, 'operator_login');
    if (!verified) throw await this.door.refusePasskey(toActor(request));
    await this.begin(
      request,
      response,
      { door: 'admin', operator: verified.operator },
      verified.operator.keyDigest,
      verified,
    );
  }

  private async begin(
    request: Request,
    response: Response,
    principal: AdminPrincipal,
    keyDigest: SecretDigest,
    passkey?: VerifiedAnswer,
  ): Promise<void> {
    const former = readCookie(request);
    request.user = principal;
    await this.throttle.countAction('console-login', principal.operator?.id ?? 'root');
    const token = await this.sessions.startSession(request, principal, keyDigest, passkey);
    if (token === undefined) throw await this.door.refusePasskey(toActor(request));
    if (former !== undefined) await this.sessions.endSession(request, former);
    setCookie(request, token);
    redirect(response, toNextPage(readFields(request).next));
  }
}

@ConsolePages('console/logout')
export class LogoutPage {
  constructor(private readonly sessions: ConsoleSessions) {}

  @Post()
  async logOut(@Req() request: Request, @Res() response: Response): Promise<void> {
    await this.sessions.endSession(request, getSession(request).token);
    setCookie(request, undefined);
    // Removes pages from the browser, so that they cannot be seen after the logout (ASVS 14.3.1).
    response.setHeader('Clear-Site-Data', '"cache", "storage"');
    redirect(response, LOGIN);
  }
}
