/** The frame of every page: its headers, its head, the navigation around its content. The renderer escapes text. */
import type { Response } from 'express';
import type { ComponentChildren, VNode } from 'preact';
import { renderToString } from 'preact-render-to-string';
import { PASSKEYS } from './addresses.js';
import { Form } from './forms.js';
import { TimeZone, UTC } from './moments.js';
import { Breadcrumbs, Navigation, type OfferedPage, type PageSession } from './navigation.js';

/**
 * Allows no inline script, no inline style, and nothing of another origin (ASVS 3.4.3). The style sheet has its icons
 * as data URLs.
 */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

export function setPageHeaders(response: Response): void {
  response.setHeader('Content-Security-Policy', CONTENT_SECURITY_POLICY);
  // With no-referrer, browsers send `Origin: null` with a form.
  response.setHeader('Referrer-Policy', 'same-origin');
  response.removeHeader('Location');
}

/** Leads to another page of the console. */
export function redirect(response: Response, address: string): void {
  setPageHeaders(response);
  response.redirect(303, address);
}

export function sendPage(response: Response, page: VNode, status = 200): void {
  setPageHeaders(response);
  response
    .status(status)
    .type('html')
    .send(`<!doctype html>${renderToString(page)}`);
}

interface PageProps {
  readonly title: string;
  /** Undefined before the login. */
  readonly session?: PageSession | undefined;
  /** The address of the page in the navigation. */
  readonly at?: string;
  /** Any one of these scopes opens the page. */
  readonly needs?: readonly string[];
  /** Whether console.js refreshes the page, which it does while the operator does not type into it. */
  readonly isLive?: boolean;
  /** The pages above this one, below the one in the navigation. */
  readonly above?: readonly OfferedPage[] | undefined;
  /** CONSOLE_LABEL, where there is no session. */
  readonly label?: string | undefined;
  readonly children: ComponentChildren;
}

/** A shield with a keyhole. */
const MARK = (
  <svg class="mark" viewBox="0 0 16 16" width="20" height="20" aria-hidden="true">
    <path
      fill="currentColor"
      fill-rule="evenodd"
      d="M8 0 1.5 2.5v5c0 4 2.6 7 6.5 8.5 3.9-1.5 6.5-4.5 6.5-8.5v-5zM8 4a2 2 0 0 0-1 3.7V11h2V7.7A2 2 0 0 0 8 4z"
    />
  </svg>
);
const ICON =
  'data:image/svg+xml,' +
  "%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%23017fc0' " +
  "d='M8 0 1.5 2.5v5c0 4 2.6 7 6.5 8.5 3.9-1.5 6.5-4.5 6.5-8.5v-5z'/%3E%3C/svg%3E";

function Brand({ label }: { label: string | undefined }): VNode {
  return (
    <p class="brand">
      <a href="/console">{MARK} platform-auth</a>
      {label !== undefined && (
        <span class={label.toLowerCase() === 'production' ? 'label production' : 'label'}>{label}</span>
      )}
    </p>
  );
}

function SearchField({ session }: { session: PageSession }): VNode {
  return (
    <Form session={session} action="/console/search" submit="Search" look="outline secondary" layout="search">
      <input
        type="search"
        name="query"
        required
        maxLength={512}
        autocomplete="off"
        aria-label="Search"
        placeholder="Id, name, e-mail, request or key"
        title="A pasted key is identified by its digest; what you type stands in no address and no log."
      />
    </Form>
  );
}

function Head({ title, label }: { title: string; label: string | undefined }): VNode {
  return (
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>{`${title} · platform-auth${label === undefined ? '' : ` (${label})`}`}</title>
      <link rel="icon" href={ICON} />
      <link rel="stylesheet" href="/console/static/pico.min.css" />
      <link rel="stylesheet" href="/console/static/console.css" />
      <script type="module" src="/console/static/console.js" />
    </head>
  );
}

export function Page({ title, session, at, needs = [], isLive, above, label: ofLogin, children }: PageProps): VNode {
  const label = session?.label ?? ofLogin;
  const zone = session?.timeZone ?? UTC;
  return (
    <TimeZone.Provider value={zone}>
      <html lang="en">
        <Head title={title} label={label} />
        <body>
          <a class="skip" href="#main">
            Skip to the content
          </a>
          <header class="container-fluid">
            <Brand label={label} />
            {session && (
              <>
                <Navigation pages={session.pages} at={at} />
                <SearchField session={session} />
                <Form session={session} action="/console/logout" submit="Log out" look="outline secondary" />
              </>
            )}
          </header>
          <main id="main" class="container-fluid" data-live={isLive}>
            {session && <Breadcrumbs pages={session.pages} at={at} above={above} title={title} />}
            <h1>{title}</h1>
            {children}
          </main>
          {session && (
            <footer class="container-fluid">
              You act as <b>{session.principal.operator?.name ?? 'the root key'}</b>
              {session.principal.operator && (
                <>
                  {' '}
                  (<a href={PASSKEYS}>passkeys</a>)
                </>
              )}
              {needs.length > 0 && `. This page needs the scope ${needs.join(' or ')}`}. Times are in{' '}
              <a href="/console/time-zone">{zone.replaceAll('_', ' ')}</a>.
            </footer>
          )}
        </body>
      </html>
    </TimeZone.Provider>
  );
}
