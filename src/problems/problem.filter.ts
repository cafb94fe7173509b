import { Catch, HttpException, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { Request, Response } from 'express';
import { getClientAddress } from '../common/client-address.js';
import { ProblemException, type Occurrence, type RefusalEvent } from './problem.exception.js';
import { toProblemBody } from './problem-body.js';
import type { Problem } from './problem.js';
import { problems } from './problems.js';
import { getCallerRequestId, getRequestId } from '../common/request-id.js';
import type { ResponseLocals } from './response-locals.js';
import { isWarning } from '../common/security-event.js';
import { isDatabaseFailure } from '../database/database-failure.js';
import { toErrorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';

/** Errors of Express and its body parser have a status. Their messages quote the request, and are dropped. */
const BY_STATUS: Readonly<Record<number, Problem>> = {
  400: problems.malformedRequest,
  404: problems.notFound,
  413: problems.payloadTooLarge,
  415: problems.unsupportedMediaType,
};

/** Turns every error into a problem response. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  constructor(private readonly log: Log) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const request = host.switchToHttp().getRequest<Request>();
    const response = host.switchToHttp().getResponse<Response>();
    const problem = toProblem(error);
    const occurrence = error instanceof ProblemException ? error.occurrence : {};
    this.record(error, problem, occurrence, request, response);
    if (response.headersSent) {
      response.destroy();
      return;
    }
    if (problem.challenge) response.setHeader('WWW-Authenticate', problem.challenge);
    if (problem.retryAfterSeconds) response.setHeader('Retry-After', problem.retryAfterSeconds);
    for (const [name, value] of Object.entries(occurrence.headers ?? {})) response.setHeader(name, value);
    const body = { ...toProblemBody(problem, getRequestId(request), occurrence.errors), ...occurrence.members };
    response.status(problem.status).type('application/problem+json').send(JSON.stringify(body));
  }

  private record(
    error: unknown,
    problem: Problem,
    { refusal, fault, isLogged = true }: Occurrence,
    request: Request,
    response: Response,
  ): void {
    if (refusal) {
      (response.locals as ResponseLocals).refusal = refusal;
      if (isLogged) this.recordRefusal(refusal, request);
      else (response.locals as ResponseLocals).isUnlogged = true;
    }
    if (problem.status < 500 || !isLogged) return;
    const fields = {
      request_id: getRequestId(request),
      caller_request_id: getCallerRequestId(request),
      error: toErrorFields(getCause(error)),
      ...fault,
    };
    this.log.writeAbout(request, problem.status === 503 && !fault ? 'warn' : 'error', problem.code, fields);
  }

  private recordRefusal({ event, reason, count, fields }: RefusalEvent, request: Request): void {
    this.log.writeAbout(request, isWarning(event) ? 'warn' : 'info', event, {
      event,
      request_id: getRequestId(request),
      caller_request_id: getCallerRequestId(request),
      address: getClientAddress(request),
      reason,
      count,
      ...fields,
    });
  }
}

function toProblem(error: unknown): Problem {
  if (error instanceof ProblemException) return error.problem;
  if (isDatabaseFailure(error)) return problems.unavailable;
  const status = error instanceof HttpException ? error.getStatus() : getStatus(error);
  // Any other 4xx of Express is the caller's mistake too.
  const isCallers = status >= 400 && status < 500;
  return BY_STATUS[status] ?? (isCallers ? problems.malformedRequest : problems.internalError);
}

function getStatus(error: unknown): number {
  return error instanceof Error && 'status' in error && typeof error.status === 'number' ? error.status : 500;
}

/** The cause tells the operator more than the problem does. */
function getCause(error: unknown): unknown {
  return error instanceof ProblemException ? (error.cause ?? error) : error;
}
