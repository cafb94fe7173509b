import { Catch, HttpException, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { Request, Response } from 'express';
import { addressOf } from '../common/client-address.js';
import { ProblemException, type RefusalEvent } from '../common/problem.exception.js';
import { problemBody } from '../common/problem-body.js';
import { problems, type Problem } from '../common/problems.js';
import { callerRequestIdOf, requestIdOf } from '../common/request-id.js';
import type { RequestOutcome } from '../common/request-outcome.js';
import { isWarning } from '../common/security-event.js';
import { isDatabaseFailure } from '../database/database-failure.js';
import { errorFields } from '../logging/log-line.js';
import { Log } from '../logging/log.js';

/** Errors of Express and its body parser carry the status they mean; their texts quote the request and are dropped. */
const BY_STATUS: Readonly<Record<number, Problem>> = {
  400: problems.malformedRequest,
  404: problems.notFound,
  413: problems.payloadTooLarge,
  415: problems.unsupportedMediaType,
};

/** The one place where an error becomes an answer. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  constructor(private readonly log: Log) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const request = host.switchToHttp().getRequest<Request>();
    const response = host.switchToHttp().getResponse<Response>();
    const problem = problemOf(error);
    this.record(error, problem, request, response);
    if (response.headersSent) {
      response.destroy();
      return;
    }
    if (problem.challenge) response.setHeader('WWW-Authenticate', problem.challenge);
    if (problem.retryAfterSeconds) response.setHeader('Retry-After', problem.retryAfterSeconds);
    if (error instanceof ProblemException) {
      for (const [name, value] of Object.entries(error.headers)) response.setHeader(name, value);
    }
    const errors = error instanceof ProblemException ? error.errors : undefined;
    const body = problemBody(problem, requestIdOf(request), errors);
    response.status(problem.status).type('application/problem+json').send(JSON.stringify(body));
  }

  private record(error: unknown, problem: Problem, request: Request, response: Response): void {
    const refusal = error instanceof ProblemException ? error.refusal : undefined;
    if (refusal) {
      (response.locals as RequestOutcome).refusal = refusal;
      const isLogged = error instanceof ProblemException && error.isLogged;
      if (isLogged) this.recordRefusal(refusal, request);
      else (response.locals as RequestOutcome).isUnlogged = true;
    }
    if (problem.status < 500) return;
    const fields = {
      request_id: requestIdOf(request),
      caller_request_id: callerRequestIdOf(request),
      error: errorFields(causeOf(error)),
    };
    this.log.about(request, problem.status === 503 ? 'warn' : 'error', problem.code, fields);
  }

  private recordRefusal({ event, reason, count, fields }: RefusalEvent, request: Request): void {
    this.log.about(request, isWarning(event) ? 'warn' : 'info', event, {
      event,
      request_id: requestIdOf(request),
      caller_request_id: callerRequestIdOf(request),
      address: addressOf(request),
      reason,
      count,
      ...fields,
    });
  }
}

function problemOf(error: unknown): Problem {
  if (error instanceof ProblemException) return error.problem;
  if (isDatabaseFailure(error)) return problems.unavailable;
  const status = error instanceof HttpException ? error.getStatus() : statusOf(error);
  // Of the caller's making all the same: a precondition or a range that the files of the documentation do not meet.
  const isCallers = status >= 400 && status < 500;
  return BY_STATUS[status] ?? (isCallers ? problems.malformedRequest : problems.internalError);
}

function statusOf(error: unknown): number {
  return error instanceof Error && 'status' in error && typeof error.status === 'number' ? error.status : 500;
}

/** What made us answer with a problem says more to the operator than the problem does. */
function causeOf(error: unknown): unknown {
  return error instanceof ProblemException ? (error.cause ?? error) : error;
}
