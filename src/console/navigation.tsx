/** The menu: the pages of the console, each with the routes of the operators' API that it shows. */
import type { VNode } from 'preact';
import { hasScope } from '../api/admin/admin.door.js';
import type { AdminPrincipal } from '../foundation/access/principals.js';
import { KEY_KINDS } from '../foundation/common/key-kinds.js';
import type { OperatorScope } from '../foundation/common/names.js';
import { NameLink } from './copyable.js';
import type { AdminRoutes } from './admin-api.js';
import { MAX_COUNTED } from './navigation-counts.js';
import type { ConsoleSession } from './console-sessions.js';

const DASHBOARD = '/console';
const NUMBER = new Intl.NumberFormat('en');

interface ConsolePage {
  readonly address: string;
  readonly name: string;
  /** The operator scope of the routes of a kind of keys: the page is offered to an operator who may read them. */
  readonly scope?: OperatorScope;
  /** The page is offered to an operator who may call one of these routes. Undefined: to every operator. */
  readonly routes?: (api: AdminRoutes) => readonly { readonly isAllowed: boolean }[];
}

const PAGES: readonly ConsolePage[] = [
  { address: DASHBOARD, name: 'Dashboard' },
  { address: '/console/map', name: 'Map', routes: ({ appCredentials }) => [appCredentials.listAppCredentials] },
  ...Object.values(KEY_KINDS).map(({ path, title, scope }) => ({ address: `/console${path}`, name: title, scope })),
  { address: '/console/users', name: 'Users', routes: ({ users }) => [users.listUsers] },
  { address: '/console/households', name: 'Households', routes: ({ households }) => [households.listHouseholds] },
  { address: '/console/enrolments', name: 'Enrolment codes', routes: ({ enrolments }) => [enrolments.listEnrolments] },
  {
    address: '/console/explain',
    name: 'Explain',
    routes: ({ nodes, appCredentials, explanations }) => [
      nodes.explainNode,
      appCredentials.explainAppCredential,
      explanations.explainUser,
    ],
  },
  {
    address: '/console/audit-events',
    name: 'Audit events',
    routes: ({ auditEvents }) => [auditEvents.listAuditEvents],
  },
];

export interface OfferedPage extends Pick<ConsolePage, 'address' | 'name'> {
  /** How many there are on it. */
  readonly count?: number | undefined;
}

/** A session with the pages that its operator is offered. */
export interface PageSession extends ConsoleSession {
  readonly pages: readonly OfferedPage[];
  /** CONSOLE_LABEL: the environment of this service. */
  readonly label: string | undefined;
  /** In which the pages show moments. */
  readonly timeZone: string;
}

/** Leaves out what the scopes of the operator refuse, because each refusal is counted as one of the platform. */
export function listOfferedPages(
  api: AdminRoutes,
  principal: AdminPrincipal,
  counts: Readonly<Record<string, number>>,
): OfferedPage[] {
  const offered = PAGES.filter(({ scope, routes }) => {
    if (scope && !hasScope(principal, scope, 'GET')) return false;
    return routes?.(api).some(({ isAllowed }) => isAllowed) ?? true;
  });
  return offered.map(({ address, name }) => ({ address, name, count: counts[address] }));
}

/** The dashboard shows what needs a person itself, so only the other pages count it. */
function Count({ count, isNeed }: { count: number; isNeed: boolean }): VNode {
  const text = count >= MAX_COUNTED ? `${NUMBER.format(MAX_COUNTED)}+` : NUMBER.format(count);
  return (
    <>
      {' '}
      <span class={isNeed ? 'count bad' : 'count'}>{text}</span>
    </>
  );
}

/** @param at the address of the shown page */
export function Navigation({ pages, at }: Pick<PageSession, 'pages'> & { readonly at: string | undefined }): VNode {
  return (
    <nav aria-label="Pages">
      <ul>
        {pages.map(({ address, name, count }) => (
          <li>
            <a href={address} aria-current={address === at ? 'page' : undefined}>
              {name}
              {count !== undefined && (address !== DASHBOARD || at !== DASHBOARD) && (
                <Count count={count} isNeed={address === DASHBOARD} />
              )}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

interface Trail extends Pick<PageSession, 'pages'> {
  readonly at: string | undefined;
  readonly above?: readonly OfferedPage[] | undefined;
  readonly title: string;
}

/** The way to a page that the menu does not have. */
export function Breadcrumbs({ pages, at, above = [], title }: Trail): VNode | null {
  const entry = pages.filter(({ address }) => address === at && address !== '/console');
  const trail = [...pages.slice(0, 1), ...entry, ...above];
  if (trail.some(({ name }) => name === title)) return null;
  return (
    <nav aria-label="Breadcrumb" class="trail">
      <ol>
        {trail.map(({ address, name }) => (
          <li>
            <NameLink address={address} name={name} />
          </li>
        ))}
      </ol>
    </nav>
  );
}
