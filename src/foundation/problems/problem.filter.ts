import { Catch, HttpException, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { Request, Response } from 'express';
import { getCallerRequestId, getRequestId } from '../common/ids.js';
import { getClientAddress } from '../common/network.js';
import { isWarning } from '../common/security-events.js';
import { isDatabaseFailure } from '../database/database-failure.js';
import { LostCursorError } from '../database/page.js';
import { toErrorFields, Log } from '../logging/log.js';
import {
  createFieldProblem,
  ProblemException,
  problems,
  toProblemBody,
  type Occurrence,
  type Problem,
  type RefusalEvent,
} from './problems.js';

/** Problems by the status of errors of Express, whose messages quote the request and are dropped. */
const BY_STATUS: Readonly<Record<number, Problem>> = {
  400: problems.malformedRequest,
  404: problems.notFound,
  413: problems.payloadTooLarge,
  415: problems.unsupportedMediaType,
};

declare module 'express-serve-static-core' {
  interface Request {
    /** Set when the request was refused, for the metrics and the request log. */
    refused?: Occurrence;
  }
}

@Catch()
export class ProblemFilter implements ExceptionFilter {
  constructor(protected readonly log: Log) {}

  catch(thrown: unknown, host: ArgumentsHost): void {
    const error = thrown instanceof LostCursorError ? createFieldProblem('/cursor', thrown.message) : thrown;
    const request = host.switchToHttp().getRequest<Request>();
    const response = host.switchToHttp().getResponse<Response>();
    const problem = toProblem(error);
    const occurrence = error instanceof ProblemException ? error.occurrence : {};
    if (occurrence.refusal) this.noteRefusal(occurrence, occurrence.refusal, request);
    if (problem.status >= 500 && occurrence.isLogged !== false) this.logFailure(error, problem, occurrence, request);
    if (response.headersSent) {
      response.destroy();
      return;
    }
    this.send(problem, occurrence, request, response);
  }

  protected send(problem: Problem, occurrence: Occurrence, request: Request, response: Response): void {
    if (problem.challenge) response.setHeader('WWW-Authenticate', problem.challenge);
    this.setHeaders(problem, occurrence, response);
    const body = { ...toProblemBody(problem, getRequestId(request), occurrence.errors), ...occurrence.members };
    const text = JSON.stringify(body);
    response.statusCode = problem.status;
    response.setHeader('Content-Type', 'application/problem+json; charset=utf-8');
    response.setHeader('Content-Length', Buffer.byteLength(text));
    // Sent together with the other responses of one round of reads, as in LinkedExpressAdapter (decision 35).
    setImmediate(() => response.end(text));
  }

  protected setHeaders({ retryAfterSeconds }: Problem, { headers = {} }: Occurrence, response: Response): void {
    if (retryAfterSeconds) response.setHeader('Retry-After', retryAfterSeconds);
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  }

  /** Leaves a note for the metrics and the request log, and logs the refusal as a security event. */
  private noteRefusal(occurrence: Occurrence, { event, reason, count, fields }: RefusalEvent, request: Request): void {
    request.refused = occurrence;
    if (occurrence.isLogged === false) return;
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

  private logFailure(error: unknown, problem: Problem, { fault, cause }: Occurrence, request: Request): void {
    this.log.writeAbout(request, problem.status === 503 && !fault ? 'warn' : 'error', problem.code, {
      request_id: getRequestId(request),
      caller_request_id: getCallerRequestId(request),
      // Logs the cause, which tells the operator more than the problem.
      error: toErrorFields(cause ?? error),
      ...fault,
    });
  }
}

function toProblem(error: unknown): Problem {
  if (error instanceof ProblemException) return error.problem;
  if (isDatabaseFailure(error)) return problems.unavailable;
  const status = error instanceof HttpException ? error.getStatus() : getStatus(error);
  // Treats any other 4xx of Express as a mistake of the caller.
  const isCallers = status >= 400 && status < 500;
  return BY_STATUS[status] ?? (isCallers ? problems.malformedRequest : problems.internalError);
}

function getStatus(error: unknown): number {
  return error instanceof Error && 'status' in error && typeof error.status === 'number' ? error.status : 500;
}
