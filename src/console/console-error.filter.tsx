/** Turns refusals into pages: the login, the refused form with what was typed, or what is wrong. */
import { Catch, Injectable, type ArgumentsHost } from '@nestjs/common';
import type { Request, Response } from 'express';
import { getRequestId } from '../foundation/common/ids.js';
import { Log } from '../foundation/logging/log.js';
import { ProblemFilter } from '../foundation/problems/problem.filter.js';
import { problems, type FieldError, type Occurrence, type Problem } from '../foundation/problems/problems.js';
import { LOGIN, toAddress } from './addresses.js';
import { ConsoleRefusalError, readFields, type Fields } from './console-requests.js';
import { ConsoleSessions } from './console-sessions.js';
import { NotLoggedInError } from './console.guard.js';
import type { RefusedForm } from './fields.js';
import { Page, redirect, sendPage } from './page.js';

/** Refusals are logged and counted as those of other routes, and shown as pages. */
@Catch()
@Injectable()
export class ConsoleErrorFilter extends ProblemFilter {
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
    this.setHeaders(problem, occurrence, response);
    const { errors = [], members = {} } = occurrence;
    const { consoleSession: session, claimedForm: form, keptForm }: Request = request;
    const scopes = problem === problems.missingScope ? (members as { scopes?: string[] }).scopes : undefined;
    const details = errors.map(({ pointer, detail }) => `${pointer.slice(1)} ${detail}.`.trimStart());
    const advice = scopes ? undefined : [problem.detail, ...details].join(' ');
    const refusal =
      problem === problems.invalidAdminKey ? describeInvalid(occurrence) : { title: problem.title, advice, scopes };
    const sendRefusal = (): void => sendPage(response, <Refusal {...refusal} request={request} />, problem.status);
    const sendForm = async (render: NonNullable<typeof keptForm>): Promise<void> =>
      sendPage(response, await render(toRefusedForm(request, refusal, errors)), problem.status);
    const isWrongKey = problem === problems.invalidAdminKey && occurrence.refusal?.reason !== 'wrong_passkey';
    const isKept = KEPT_STATUSES.has(problem.status) || isWrongKey;
    // A refused form changed nothing, so it may be corrected and sent again; after a 5xx that is unknown.
    const isChangeless = session && form !== undefined && problem.status < 500;
    const released = isChangeless ? this.sessions.releaseForm(session, form) : Promise.resolve();
    released.then(() => (isKept && keptForm ? sendForm(keptForm) : sendRefusal())).catch(sendRefusal);
  }
}

function describeInvalid({ refusal }: Occurrence): Pick<RefusalProps, 'title' | 'advice'> {
  if (refusal?.reason !== 'wrong_passkey')
    return { title: 'The key is not valid', advice: 'Is it whole, and of this service?' };
  const advice =
    'It is not one of this operator, or the question to it is older than 5 minutes or was answered before. Reload the ' +
    'page before this one, and try again.';
  return { title: 'The passkey is not valid', advice };
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
  const next = request.method === 'GET' ? request.originalUrl : undefined;
  redirect(response, toAddress(LOGIN, { next }));
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
