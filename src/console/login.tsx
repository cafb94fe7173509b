import { Controller, Get, Post, Query, Req, Res, UseFilters } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { Public } from '../access/require.js';
import { AdminStrategy } from '../admin/admin.module.js';
import { ConsoleErrors, ConsolePages, ConsoleRefusal, getSession, readCookie, readFields } from './console-requests.js';
import { refuseOtherOrigin, setCookie, toNextPage } from './console-requests.js';
import { ConsoleSessions } from './console-sessions.js';
import { Field, Page, sendPage, setPageHeaders } from './view.js';

@ApiExcludeController()
@UseFilters(ConsoleErrors)
@Controller('console/login')
export class LoginPage {
  constructor(
    private readonly door: AdminStrategy,
    private readonly sessions: ConsoleSessions,
  ) {}

  @Get()
  @Public()
  showLogin(@Req() request: Request, @Res() response: Response, @Query() query: Record<string, unknown>): void {
    // Refused, so that no operator gets used to a key in an address, which browsers and proxies keep.
    if (Object.keys(query).some((name) => name !== 'next'))
      throw new ConsoleRefusal(
        400,
        'Not in the address bar',
        'Type the key into the form: an address is kept by browsers and proxies.',
      );
    readCookie(request);
    sendPage(
      response,
      <Page title="Log in">
        <form method="post" action="/console/login">
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
    refuseOtherOrigin(request);
    const { key: typed = '', next } = readFields(request);
    const key = typed.trim();
    const former = readCookie(request);
    const principal = await this.door.verifyAdminKey(request, key);
    request.user = principal;
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
    // What the browser keeps of the pages, against a look at them after the logout (ASVS 14.3.1).
    response.setHeader('Clear-Site-Data', '"cache", "storage"');
    setPageHeaders(response);
    response.redirect(303, '/console/login');
  }
}
