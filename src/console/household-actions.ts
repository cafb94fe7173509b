/** What an operator may do about a household and about its members. */
import type { Request } from 'express';
import type { AdminHouseholdMemberResponse, AdminHouseholdResponse } from '../api/admin/households.admin.controller.js';
import type { AdminRoute, AdminRoutes } from './admin-api.js';
import { readFields } from './console-requests.js';
import type { FieldProps } from './fields.js';
import type { ResourceType } from './resource-types.js';

const ALL_OR_NONE = { '': 'all', true: 'none' };
const ROLES = { member: 'member', admin: 'admin' };

/** The field of a new member. */
export const USER: FieldProps = { label: 'E-mail address or id of the user', name: 'user_id', isRequired: true };

export const HOUSEHOLDS: ResourceType<AdminHouseholdResponse> = {
  address: '/console/households',
  title: 'Households',
  noun: 'household',
  scope: 'nodes',
  routes: ({ households: { listHouseholds, getHousehold } }) => ({
    list: listHouseholds,
    search: listHouseholds,
    find: getHousehold,
  }),
  filters: [
    { label: 'Part of the name, or id', name: 'search' },
    { label: 'Member, by e-mail address or id', name: 'user_id' },
    { label: 'Active admin', name: 'without_admin', options: ALL_OR_NONE },
    { label: 'Members', name: 'without_members', options: ALL_OR_NONE },
  ],
  // Users make households, and so do the nodes that name one.
  fields: [],
  submit: '',
  head: ['Members', 'Since'],
  orders: { Since: 'created_at' },
  nameLabel: 'Type the name, or the id of one without a name',
  actions: {
    rename: {
      title: 'Rename',
      effect: 'Its members see the new name.',
      route: ({ households }) => households.renameHousehold,
      fields: ({ name }) => [{ label: 'Name', name: 'name', value: name ?? '', isRequired: true }],
      isHarmless: true,
    },
    'add-member': {
      title: 'Add a member',
      effect: 'The user becomes a member without an invitation, and may command its devices.',
      route: ({ households }) => households.addHouseholdMember,
      fields: () => [USER, { label: 'Role', name: 'role', options: ROLES }],
    },
    delete: {
      title: 'Delete',
      effect: 'All memberships, open invitations and open enrolments end. This cannot be undone.',
      route: ({ households }) => households.deleteHousehold,
      fields: () => [
        {
          label: 'Its live devices',
          name: 'revoke_nodes',
          options: { '': 'stay: delete nothing while there are any', true: 'are revoked with it' },
        },
      ],
      asksForName: true,
    },
  },
  partActions: { role: 'change of a role', remove: 'removal of a member', cancel: 'cancellation of a code' },
  toId: ({ id }) => id,
  toName: ({ id, name }) => name ?? id,
};

export interface MemberAction {
  readonly title: string;
  readonly effect: string;
  readonly fields: (member: AdminHouseholdMemberResponse) => readonly FieldProps[];
  readonly route: (api: AdminRoutes) => Pick<AdminRoute<never[], unknown>, 'isAllowed' | 'requireScope'>;
  readonly perform: (api: AdminRoutes, request: Request, address: MemberAddress) => Promise<unknown>;
}

export interface MemberAddress {
  readonly id: string;
  readonly userId: string;
}

export const MEMBER_ACTIONS: Readonly<Record<string, MemberAction>> = {
  role: {
    title: 'Change the role',
    effect: 'It holds from the next call on, at every service. Open codes that an admin issued end with that role.',
    fields: ({ role }) => [{ label: 'Role', name: 'role', value: role, options: ROLES }],
    route: ({ households }) => households.changeHouseholdMember,
    perform: async ({ households }, request, { id, userId }) =>
      households.changeHouseholdMember(request, id, userId, { role: readFields(request).role }),
  },
  remove: {
    title: 'Remove',
    effect: 'From the next call on, no service takes the person for a member. Open codes that the person issued end.',
    fields: () => [],
    route: ({ households }) => households.removeHouseholdMember,
    perform: async ({ households }, request, { id, userId }) => households.removeHouseholdMember(request, id, userId),
  },
};
