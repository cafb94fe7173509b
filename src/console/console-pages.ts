/** The decorators of the console's controllers, and the answer to addresses that none of them has. */
import { applyDecorators, Controller, Get, Req, Res, UseFilters, UseGuards } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { Declares } from '../foundation/access/route-declarations.js';
import { ProblemException, problems } from '../foundation/problems/problems.js';
import { ConsoleErrorFilter } from './console-error.filter.js';
import { ConsoleGuard } from './console.guard.js';
import { redirect } from './page.js';

export const ConsoleController = (path: string): ClassDecorator =>
  applyDecorators(
    Controller(path),
    ApiExcludeController(),
    Declares({ audience: 'operators', body: 'form', doors: [] }),
  );

/** Pages behind the login. They stay out of the OpenAPI document, and answer errors with pages. */
export const ConsolePages = (path: string): ClassDecorator =>
  applyDecorators(ConsoleController(path), UseGuards(ConsoleGuard), UseFilters(ConsoleErrorFilter));

/** Answers a mistyped address with a page that leads back, instead of JSON. */
@ConsolePages('console')
export class UnknownPage {
  @Get('{*rest}')
  show(@Req() request: Request, @Res() response: Response): void {
    if (request.path !== '/console/') throw new ProblemException(problems.notFound);
    redirect(response, '/console');
  }
}
