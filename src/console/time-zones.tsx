/** In which time zone the console shows moments: UTC, or the one that its reader chose, which a cookie keeps. */
import { Get, Post, Query, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import { refuseField } from '../foundation/problems/problems.js';
import { ConsolePages } from './console-pages.js';
import { getSession, keepForm, readFields, type Fields } from './console-requests.js';
import { ReadsOnly } from './console.guard.js';
import type { RefusedForm } from './fields.js';
import { Form } from './forms.js';
import { Page, redirect, sendPage } from './page.js';
import { toAddress } from './addresses.js';
import { isTimeZone, TIME_ZONE_COOKIE, UTC } from './moments.js';

const ADDRESS = '/console/time-zone';
const YEAR_MS = 365 * 86_400_000;

@ConsolePages('console/time-zone')
export class TimeZonePage {
  @Get()
  show(@Req() request: Request, @Res() response: Response, @Query() { done }: Fields): void {
    sendPage(response, this.render(request, done === 'chosen'));
  }

  private render(request: Request, isChosen: boolean, refused?: RefusedForm) {
    const session = getSession(request);
    const zones = [UTC, ...Intl.supportedValuesOf('timeZone').filter((zone) => zone !== UTC)];
    const options = Object.fromEntries(zones.map((zone) => [zone, zone.replaceAll('_', ' ')]));
    const fields = [{ label: 'Time zone', name: 'zone', value: session.timeZone, options }];
    return (
      <Page title="Time zone" session={session} at={ADDRESS}>
        {isChosen && <p role="status">Done: times are in {session.timeZone.replaceAll('_', ' ')}.</p>}
        <Form session={session} action={ADDRESS} submit="Use it" fields={fields} refused={refused}>
          <p>All pages show moments in it, in this browser. Downloads and the API stay in UTC.</p>
        </Form>
      </Page>
    );
  }

  /** Changes nothing but a cookie of this browser. */
  @Post()
  @ReadsOnly()
  choose(@Req() request: Request, @Res() response: Response): void {
    keepForm(request, (refused) => this.render(request, false, refused));
    const { zone = '' } = readFields(request);
    if (!isTimeZone(zone)) refuseField('/zone', 'is not a time zone');
    const isSecure = request.secure;
    const options = {
      path: '/console',
      httpOnly: true,
      sameSite: 'strict',
      secure: isSecure,
      maxAge: YEAR_MS,
    } as const;
    response.cookie(TIME_ZONE_COOKIE, zone, options);
    redirect(response, toAddress(ADDRESS, { done: 'chosen' }));
  }
}
