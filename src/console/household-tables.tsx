/** The tables of a household: its people, its devices and its open codes; and the households of a user. */
import type { VNode } from 'preact';
import type { AdminHouseholdMemberResponse, AdminHouseholdResponse } from '../api/admin/households.admin.controller.js';
import type { NodeResponse } from '../api/admin/nodes.admin.controller.js';
import { KEY_KINDS } from '../foundation/common/key-kinds.js';
import type { AdminRoutes } from './admin-api.js';
import { Named, NameLink } from './copyable.js';
import { State } from './credential-pages.js';
import { HOUSEHOLDS, MEMBER_ACTIONS } from './household-actions.js';
import { Ago, Moment } from './moments.js';
import { toLabel } from './properties.js';
import { toAddressOf } from './resource-types.js';
import { Table } from './tables.js';

/** A code that can be used now. */
export interface OpenCode {
  readonly kind: 'invitation' | 'enrolment';
  readonly codeId: string;
  readonly whom: string;
  readonly issued_by: string | null;
  readonly expires_at: string;
}

export function People({
  members,
  active_admins: admins,
}: Pick<AdminHouseholdResponse, 'members' | 'active_admins'>): VNode {
  if (members > 0 && admins === 0) return <span class="warn">{members}, without an active admin</span>;
  return (
    <>
      {members}
      {members > 0 && `, active admins: ${admins}`}
    </>
  );
}

export function HouseholdTable({ households }: { households: readonly AdminHouseholdResponse[] }): VNode {
  const rows = households.map((household) => [
    <NameLink address={toAddressOf(HOUSEHOLDS, household)} name={HOUSEHOLDS.toName(household)} />,
    <People {...household} />,
  ]);
  return <Table caption="Households" head={['Name', 'Members']} rows={rows} />;
}

interface PeopleTableProps {
  readonly api: AdminRoutes;
  readonly household: AdminHouseholdResponse;
  readonly people: readonly AdminHouseholdMemberResponse[];
}

export function PeopleTable({ api: { users, households }, household, people }: PeopleTableProps): VNode {
  const mayChange = households.changeHouseholdMember.isAllowed;
  const rows = people.map(({ id, email, role, since, is_active }) => [
    users.getUserAsAdmin.isAllowed ? <a href={`/console/users/${id}`}>{email}</a> : email,
    role,
    <Moment at={since} />,
    is_active ? <span class="good">active</span> : <span class="bad">disabled</span>,
    mayChange &&
      Object.entries(MEMBER_ACTIONS).map(([action, { title }]) => [
        <a href={`${toAddressOf(HOUSEHOLDS, household)}/members/${id}/${action}`} aria-label={`${title}: ${email}`}>
          {title}
        </a>,
        ' ',
      ]),
  ]);
  const head = ['Person', 'Role', 'Since', 'State', ...(mayChange ? ['Actions'] : [])];
  return <Table caption="People" head={head} rows={rows} />;
}

export function DeviceTable({ devices }: { devices: readonly NodeResponse[] }): VNode {
  const rows = devices.map((node) => [
    <NameLink address={`/console/nodes/${node.node_id}`} name={KEY_KINDS.node.toOwner(node)} />,
    <State of={node} />,
    <Ago at={node.expires_at} />,
    <Ago at={node.last_used_at} />,
  ]);
  return <Table caption="Live devices" head={['Device', 'State', 'Expires', 'Last used']} rows={rows} />;
}

interface CodeTableProps {
  readonly api: AdminRoutes;
  readonly household: AdminHouseholdResponse;
  readonly codes: readonly OpenCode[];
  /** Of the issuers, as far as the operator may read them. */
  readonly emails: ReadonlyMap<string, string>;
}

export function CodeTable({ api: { users, enrolments }, household, codes, emails }: CodeTableProps): VNode {
  const mayCancel = enrolments.cancelEnrolment.isAllowed;
  const toIssuer = (id: string | null): VNode => {
    if (id === null) return <>an operator</>;
    const address = users.getUserAsAdmin.isAllowed ? `/console/users/${id}` : undefined;
    return <Named id={id} name={emails.get(id)} address={address} />;
  };
  const rows = codes.map(({ kind, codeId, whom, issued_by, expires_at }) => [
    toLabel(kind),
    <bdi>{whom}</bdi>,
    toIssuer(issued_by),
    <Moment at={expires_at} />,
    mayCancel && (
      <a
        href={`${toAddressOf(HOUSEHOLDS, household)}/codes/${kind}/${codeId}`}
        aria-label={`Cancel: ${kind} of ${whom}`}
      >
        Cancel
      </a>
    ),
  ]);
  const head = ['Code', 'For', 'Issued by', 'Until', ...(mayCancel ? ['Actions'] : [])];
  return <Table caption="Open codes" head={head} rows={rows} />;
}
