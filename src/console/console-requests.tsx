/**
 * What surrounds the pages: the login and its cookie, the guard that asks for a session and checks each form, and the filter
 * that turns refusals into pages. Invariants: a request that changes something comes from a form that a page of this session
 * made, from this origin, and is done once (ASVS 3.5.1); GET changes nothing.
 */
import {
  applyDecorators,
  Catch,
  Controller,
  Get,
  Injectable,
  Post,
  Query,
  Req,
  Res,
  SetMetadata,
  UseFilters,
  UseGuards,
  type ArgumentsHost,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import type { VNode } from 'preact';
import { toActor } from '../foundation/access/actor.js';
import { Public } from '../foundation/access/require.js';
import { Declares } from '../foundation/access/route-declarations.js';
import { AdminDoor, isMissingScope } from '../api/admin/admin.door.js';
import { CountedRefusals } from '../domain/audit/counted-refusals.js';
import type { RefusalReason } from '../foundation/common/security-events.js';
import { toNetwork } from '../foundation/common/network.js';
import { Log } from '../foundation/logging/log.js';
import { refuseHostileText } from '../foundation/http/validation.js';
import { ProblemFilter } from '../foundation/problems/problem.filter.js';
import {
  ProblemException,
  problems,
  type FieldError,
  type Occurrence,
  type Problem,
} from '../foundation/problems/problems.js';
import { Throttle } from '../foundation/throttling/throttle.js';
import { getRequestId } from '../foundation/common/ids.js';
import { Environment } from '../foundation/config/environment.js';
import { AdminApi } from './admin-api.js';
import { readMoments, readTimeZone } from './moments.js';
import { NavigationCounts } from './navigation-counts.js';
import { listOfferedPages, type PageSession } from './navigation.js';
import { ConsoleSessions, readFormToken, type ConsoleSession } from './console-sessions.js';
import { Field, Page, sendPage, setPageHeaders, toAddress, type RefusedForm } from './view.js';

const LOGIN = '/console/login';
/** Enough for the check boxes of a page of 100 rows. */
const MAX_FIELDS = 128;
/** Enough for 64 scopes or targets of 100 letters each. */
const MAX_FORM_LENGTH = 8_192;
const TOKEN = /^[\w-]{43}$/;
/** Browsers resolve every name below `localhost` to loopback (RFC 6761 §6.3), and keep the cookies of each apart. */
const LOOPBACK = /^(([\w-]+\.)*localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** The console refuses a request, and its page says why. */
export class ConsoleRefusalError extends Error {
  override readonly name = 'ConsoleRefusalError';

  constructor(
    readonly status: number,
    readonly title: string,
    readonly advice: string,
  ) {
    super(title);
  }
}

class NotLoggedInError extends Error {
  override readonly name = 'NotLoggedInError';
}

declare module 'express-serve-static-core' {
  interface Request {
    /** Set by the guard of a page behind the login. */
    consoleSession?: PageSession;
    /** The number of the form that this request claimed. */
    claimedForm?: string;
    /** The fields of the sent form. */
    formFields?: Fields;
    /** Renders the page of a refused form again. */
    keptForm?: (refused: RefusedForm) => VNode | Promise<VNode>;
  }
}

/** Makes a refusal show the form again, with what was typed and what is wrong beside the field. */
export function keepForm(request: Request, render: NonNullable<Request['keptForm']>): void {
  request.keptForm = render;
}

export function getSession({ consoleSession: session }: Request): PageSession {
  if (!session) throw new Error('The route has no guard of the console');
  return session;
}

/**
 * Browsers refuse a cookie with this prefix when it was set without TLS, by another host, or with a narrower path.
 * Without TLS only loopback is served, where the path keeps the cookie from pages of other programs.
 */
function chooseCookie(request: Request): { name: string; path: string; isSecure: boolean } {
  if (request.secure) return { name: '__Host-console', path: '/', isSecure: true };
  if (LOOPBACK.test(request.hostname)) return { name: 'console', path: '/console', isSecure: false };
  const advice = 'Open the console with https, or on 127.0.0.1 of this machine, such as through an SSH tunnel.';
  throw new ConsoleRefusalError(403, 'The console needs TLS', advice);
}

function readCookie(request: Request): string | undefined {
  const { name } = chooseCookie(request);
  const cookies = (request.headers.cookie ?? '').split(/; */).map((each) => each.split('=', 2));
  const [[, token] = [], ...others] = cookies.filter(([each]) => each === name);
  const advice =
    'Another program of this machine set a cookie of that name. Delete the cookies of this address in the browser, or open the ' +
    'console under a name of its own, such as auth.localhost.';
  if (others.length > 0) throw new ConsoleRefusalError(400, 'Two sessions in one request', advice);
  return token !== undefined && TOKEN.test(token) ? token : undefined;
}

/** @param token undefined to delete the cookie */
function setCookie(request: Request, token: string | undefined): void {
  const { name, path, isSecure } = chooseCookie(request);
  const options = { path, httpOnly: true, sameSite: 'strict', secure: isSecure } as const;
  if (token === undefined) request.res?.clearCookie(name, options);
  else request.res?.cookie(name, token, options);
}

/** Browsers send both headers with a form, and a form of another origin, or another port, is refused (CSRF). */
function isOfThisOrigin({ headers, protocol }: Request): boolean {
  const { origin, host = '', 'sec-fetch-site': site } = headers;
  const isSame = origin === undefined ? site === 'same-origin' : origin === `${protocol}://${host}`;
  return isSame && (site === undefined || site === 'same-origin');
}

/** Refuses forms that no page of this session made, and counts them by operator; those of the login by network (CSRF). */
@Injectable()
export class ForeignForms {
  constructor(private readonly refusals: CountedRefusals) {}

  async refuseOtherOrigin(request: Request): Promise<void> {
    if (!isOfThisOrigin(request)) throw await this.recordRefusal(request, 'origin');
  }

  async recordRefusal(request: Request, reason: RefusalReason<'admin.console.refused'>): Promise<ProblemException> {
    const { consoleSession: session } = request;
    const actor = toActor(request);
    const { id = 'admin', name } = session?.principal.operator ?? {};
    const refusal = { event: 'admin.console.refused', reason, fields: { operator: name } } as const;
    const about = session
      ? { counted: `forms of ${id}`, subject: id }
      : { counted: `forms of ${toNetwork(actor.address ?? undefined)}` };
    return this.refusals.recordRefusal({ problem: problems.foreignForm, refusal, ...about }, actor);
  }
}

const READS_ONLY = 'console-reads-only';

/** A form that changes nothing, such as a search: it may be sent again, as a browser does at a reload. */
export const ReadsOnly = () => SetMetadata(READS_ONLY, true);

export type Fields = Readonly<Record<string, string | undefined>>;

/** @returns the fields of a form, with the values of a repeated field joined by blanks */
export function readFields(request: Request): Fields {
  return (request.formFields ??= parseForm(request));
}

function parseForm({ body }: Request): Fields {
  const text = Buffer.isBuffer(body) ? body.toString('latin1') : '';
  // Refused before parsing, which takes 50 ms for 99 KB.
  if (text.length > MAX_FORM_LENGTH || text.split('&', MAX_FIELDS + 1).length > MAX_FIELDS)
    throw new ProblemException(problems.malformedRequest);
  const form = new URLSearchParams(text);
  for (const value of form.values()) refuseHostileText(value, '');
  return Object.fromEntries([...new Set(form.keys())].map((name) => [name, form.getAll(name).join(' ')]));
}

/**
 * Reads the filters of a list, and redirects to their address with moments in UTC, which is the same for a reader in
 * another time zone.
 * @param moments the names of those that are moments
 * @returns undefined when it has redirected
 */
export function readFilters(request: Request, address: string, moments: readonly string[], sent: Fields) {
  const read = readMoments(moments, sent, getSession(request).timeZone);
  if (moments.every((name) => read[name] === (sent[name] || undefined))) return read;
  if (request.res) setPageHeaders(request.res);
  request.res?.redirect(303, toAddress(address, read));
  return undefined;
}

/**
 * @param updatedAt undefined for a resource that is never changed, only ended
 * @throws {ConsoleRefusalError} when the resource was changed since its page was shown
 */
export function refuseOutdated(request: Request, updatedAt: string | undefined): void {
  if (readFields(request).seen === updatedAt) return;
  const advice = 'Another call changed it after you opened the page. Nothing was done: look at it again, and decide.';
  throw new ConsoleRefusalError(409, 'Changed meanwhile', advice);
}

@Injectable()
class ConsoleGuard implements CanActivate {
  constructor(
    private readonly sessions: ConsoleSessions,
    private readonly api: AdminApi,
    private readonly counts: NavigationCounts,
    private readonly foreignForms: ForeignForms,
    private readonly environment: Environment,
  ) {}

  async canActivate(context: ExecutionContext): Promise<true> {
    const request = context.switchToHttp().getRequest<Request>();
    if (Object.values(request.query).some((value) => typeof value !== 'string'))
      throw new ProblemException(problems.malformedRequest);
    const token = readCookie(request);
    // A page that refreshes itself must not keep the session alive.
    const isActive = request.headers['x-console-refresh'] === undefined;
    const session = token === undefined ? undefined : await this.sessions.findSession(token, isActive);
    if (!session) throw new NotLoggedInError();
    request.user = session.principal;
    const { operator } = session.principal;
    const counts = await this.counts.readCounts(
      (scope) => operator === null || !isMissingScope(operator, scope, 'GET'),
    );
    request.consoleSession = {
      ...session,
      label: this.environment.consoleLabel,
      timeZone: readTimeZone(request.headers.cookie),
      pages: listOfferedPages(this.api.bindTo(request), session.principal, counts),
    };
    if (request.method !== 'GET' && request.method !== 'HEAD') await this.claimForm(request, session, context);
    return true;
  }

  private async claimForm(request: Request, session: ConsoleSession, context: ExecutionContext): Promise<void> {
    await this.foreignForms.refuseOtherOrigin(request);
    const form = readFormToken(session, readFields(request).form ?? '', request.path);
    if (form === undefined) throw await this.foreignForms.recordRefusal(request, 'form');
    if (Reflect.getMetadata(READS_ONLY, context.getHandler()) === true) return;
    const advice =
      'It was done once, and not again. A new key was shown in the first answer only: if you do not have it, rotate the key.';
    if (!(await this.sessions.claimForm(session, form)))
      throw new ConsoleRefusalError(409, 'This form was sent before', advice);
    request.claimedForm = form;
  }
}

/** Refusals are logged and counted as those of other routes, and shown as pages. */
@Catch()
@Injectable()
class ConsoleErrors extends ProblemFilter {
  constructor(
    log: Log,
    private readonly sessions: ConsoleSessions,
  ) {
    super(log);
  }

  override catch(error: unknown, host: ArgumentsHost): void {
    const request = host.switchToHttp().getRequest<Request>();
    const response = host.switchToHttp().getResponse<Response>();
    if (error instanceof NotLoggedInError) redirectToLogin(request, response);
    else if (error instanceof ConsoleRefusalError)
      sendPage(response, <Refusal title={error.title} advice={error.advice} request={request} />, error.status);
    else super.catch(error, host);
  }

  protected override send(problem: Problem, occurrence: Occurrence, request: Request, response: Response): void {
    const { errors = [], members = {} } = occurrence;
    const { consoleSession: session, claimedForm: form, keptForm }: Request = request;
    const scopes = problem === problems.missingScope ? (members as { scopes?: string[] }).scopes : undefined;
    const details = errors.map(({ pointer, detail }) => `${pointer.slice(1)} ${detail}.`.trimStart());
    const advice = scopes ? undefined : [problem.detail, ...details].join(' ');
    const refusal =
      problem === problems.invalidAdminKey
        ? { title: 'The key is not valid', advice: 'Is it whole, and of this service?' }
        : { title: problem.title, advice, scopes };
    const sendRefusal = (): void => sendPage(response, <Refusal {...refusal} request={request} />, problem.status);
    const sendForm = async (render: NonNullable<typeof keptForm>): Promise<void> =>
      sendPage(response, await render(toRefusedForm(request, refusal, errors)), problem.status);
    const isKept = KEPT_STATUSES.has(problem.status);
    // A refused form changed nothing, so it may be corrected and sent again; after a 5xx that is unknown.
    const isChangeless = session && form !== undefined && problem.status < 500;
    const released = isChangeless ? this.sessions.releaseForm(session, form) : Promise.resolve();
    released.then(() => (isKept && keptForm ? sendForm(keptForm) : sendRefusal())).catch(sendRefusal);
  }
}

/** Of refusals that another form can avoid. */
const KEPT_STATUSES: ReadonlySet<number> = new Set([400, 409, 422]);

function toRefusedForm(
  request: Request,
  { title, advice }: Pick<RefusalProps, 'title' | 'advice'>,
  errors: readonly FieldError[],
): RefusedForm {
  const fields = Object.fromEntries(errors.map(({ pointer, detail }) => [pointer.split('/', 2)[1] ?? '', detail]));
  const values = request.method === 'GET' ? (request.query as Fields) : readFields(request);
  return { values, errors: fields, ...(errors.length === 0 && { advice: `${title}. ${advice ?? ''}`.trim() }) };
}

function redirectToLogin(request: Request, response: Response): void {
  setPageHeaders(response);
  const next = request.method === 'GET' ? request.originalUrl : undefined;
  response.redirect(303, toAddress(LOGIN, { next }));
}

interface RefusalProps {
  readonly title: string;
  readonly advice: string | undefined;
  readonly request: Request;
  /** The scopes of which the operator lacks one, for the advice of the page. */
  readonly scopes?: readonly string[] | undefined;
}

function Refusal({ title, advice, request, scopes }: RefusalProps) {
  const { consoleSession: session } = request;
  return (
    <Page title={title} session={session}>
      {advice !== undefined && <p>{advice}</p>}
      {scopes && (
        <p>
          It needs the scope {scopes.join(' or ')}. An operator with the scope operators, or the holder of the root key,
          can grant it: see the page Operators.
        </p>
      )}
      <p>
        <small>Request {getRequestId(request)}</small>
      </p>
      <p>{session ? <a href="/console">To the first page</a> : <a href={LOGIN}>Log in</a>}</p>
    </Page>
  );
}

/**
 * @returns the page of the console to show after the login, and never an address of another site (open redirect, ASVS
 * 3.7.2)
 */
function toNextPage(next: unknown): string {
  if (typeof next !== 'string' || !/^\/[\w/?=&.:%+-]*$/.test(next)) return '/console';
  // Parsed as the browser will, because dot segments, even encoded ones, lead elsewhere.
  const { origin, pathname, search } = new URL(next, 'http://console');
  const isOfConsole = pathname === '/console' || pathname.startsWith('/console/');
  return origin === 'http://console' && isOfConsole && pathname !== LOGIN ? pathname + search : '/console';
}

export const ConsoleController = (path: string): ClassDecorator =>
  applyDecorators(
    Controller(path),
    ApiExcludeController(),
    Declares({ audience: 'operators', body: 'form', doors: [] }),
  );

/** Pages behind the login. They stay out of the OpenAPI document, and answer errors with pages. */
export const ConsolePages = (path: string): ClassDecorator =>
  applyDecorators(ConsoleController(path), UseGuards(ConsoleGuard), UseFilters(ConsoleErrors));

@UseFilters(ConsoleErrors)
@ConsoleController(LOGIN)
export class LoginPage {
  constructor(
    private readonly door: AdminDoor,
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
    sendPage(
      response,
      <Page title="Log in" label={this.environment.consoleLabel}>
        <form method="post" action={LOGIN}>
          <input type="hidden" name="next" value={toNextPage(query.next)} />
          <Field
            label="Key"
            name="key"
            type="password"
            isRequired
            hint="Your operator's key, or the root key ADMIN_API_KEY."
          />
          <button type="submit">Log in</button>
        </form>
      </Page>,
    );
  }

  /** A wrong key is throttled, counted and audited as at the admin door. */
  @Post()
  @Public()
  async logIn(@Req() request: Request, @Res() response: Response): Promise<void> {
    await this.foreignForms.refuseOtherOrigin(request);
    const { key: typed = '', next } = readFields(request);
    const key = typed.trim();
    const former = readCookie(request);
    const principal = await this.door.verifyAdminKey(key, () => toActor(request));
    request.user = principal;
    await this.throttle.countAct('console-login', principal.operator?.id ?? 'root');
    const token = await this.sessions.startSession(request, principal, key);
    if (former !== undefined) await this.sessions.endSession(request, former);
    setCookie(request, token);
    setPageHeaders(response);
    response.redirect(303, toNextPage(next));
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
    setPageHeaders(response);
    response.redirect(303, LOGIN);
  }
}

/** Answers a mistyped address with a page that leads back, instead of JSON. */
@ConsolePages('console')
export class UnknownPage {
  @Get('{*rest}')
  show(@Req() request: Request, @Res() response: Response): void {
    if (request.path === '/console/') {
      setPageHeaders(response);
      response.redirect(303, '/console');
      return;
    }
    throw new ProblemException(problems.notFound);
  }
}
