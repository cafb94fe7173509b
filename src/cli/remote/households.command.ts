import { Argument, Option, type Command } from 'commander';
import type {
  AdminHouseholdMemberResponse,
  AdminHouseholdResponse,
} from '../../api/admin/households.admin.controller.js';
import { EXAMPLES, type HouseholdRole } from '../../foundation/common/names.js';
import { joinPath } from '../http-client.js';
import { addCommand, NEEDS_ADMIN_KEY } from '../command-options.js';
import { formatTable, replaceControlCharacters } from '../tables.js';
import { addYes, createConfirm } from '../terminal.js';
import type { AdminClient } from './admin-client.js';
import { addRemote, formatItem } from './remote-command.js';
import { findUserId } from './users.command.js';

const PATH = '/households';
const COLUMNS = ['id', 'name', 'members', 'active_admins', 'created_at'];
const MEMBER_COLUMNS = ['id', 'email', 'role', 'since', 'is_active'] as const;
const ROLES = ['admin', 'member'] as const satisfies readonly HouseholdRole[];
const LOST_ADDITION = 'Run this again: already_member means that it was done.';

interface HouseholdDetails extends AdminHouseholdResponse {
  readonly people: readonly AdminHouseholdMemberResponse[];
}

/** `platform-auth households …`: who lives where. */
export function addHouseholdsCommands(root: Command): void {
  const description =
    'Manage households and their members. A <user> is an id or an e-mail address, which needs the scope users or read.';
  const households = addCommand(root, 'households', description, { needs: NEEDS_ADMIN_KEY, example: 'list' });
  addList(households);
  addShow(households);
  addRename(households);
  addDelete(households);
  addMember(households);
  addSetRole(households);
  addRemoveMember(households);
}

function addList(households: Command): void {
  addRemote(households, 'list', 'List households.', `--search home --member ${EXAMPLES.email}`)
    .list(async (client, { member }: { member?: string }) => ({
      path: PATH,
      columns: COLUMNS,
      drop: ['created_at', 'active_admins', 'members'],
      ...(member !== undefined && { query: { user_id: await findUserId(client, member) } }),
    }))
    .option('--search <text>', 'only households whose name contains this')
    .option('--member <user>', 'only households of this user')
    .option('--without-admin', 'only households with members, of whom none is an active admin')
    .option('--without-members', 'only households without members');
}

function addShow(households: Command): void {
  addRemote(households, 'show <household_id>', 'Show one household with its members.', EXAMPLES.householdId).answer(
    async (client, id: string): Promise<HouseholdDetails> => {
      const household = await findHousehold(client, id);
      return { ...household, people: await client.list(joinPath(PATH, id, 'members')) };
    },
    ({ people, ...household }) =>
      `${formatItem(household)}\n\n${formatTable(MEMBER_COLUMNS, people, { drop: ['is_active', 'since'] })}`,
  );
}

function addRename(households: Command): void {
  const example = `${EXAMPLES.householdId} home`;
  addRemote(households, 'rename <household_id> <name>', 'Give a household a name.', example).answer(
    async (client, id: string, name: string) => client.patch<AdminHouseholdResponse>(joinPath(PATH, id), { name }),
    ({ id, name }) => `Household ${id} has the name ${name} now.`,
  );
}

function addDelete(households: Command): void {
  const description = 'Delete a household: its memberships, open invitations and open enrolments end.';
  addYes(addRemote(households, 'delete <household_id>', description, `${EXAMPLES.householdId} --revoke-nodes`))
    .option('--revoke-nodes', 'revoke its live nodes with it; otherwise it is refused while there are any', false)
    .answer(
      async (client, id: string, { revokeNodes }: { revokeNodes: boolean }, command: Command) => {
        await createConfirm(command)(() => describeDeletion(client, id, revokeNodes));
        await client.delete(`${joinPath(PATH, id)}${revokeNodes ? '?revoke_nodes=true' : ''}`);
        return { id, deleted: true };
      },
      (_result, id) => `Household ${id} is deleted.`,
    );
}

async function describeDeletion(client: AdminClient, id: string, revokeNodes: boolean): Promise<string> {
  const { name, members } = await findHousehold(client, id);
  const what = `This deletes the household ${replaceControlCharacters(name ?? id)} with its ${members} memberships`;
  if (!revokeNodes) return `${what} permanently.`;
  const nodes = await client.list('/nodes', { household_id: id, live: 'true' });
  return `${what} and revokes its ${nodes.length} live nodes permanently.`;
}

function addMember(households: Command): void {
  const description = 'Add a user to a household, without an invitation.';
  addRemote(households, 'add-member <household_id> <user>', description, `${EXAMPLES.householdId} ${EXAMPLES.email}`)
    .addOption(new Option('--role <role>', 'of the user in the household').choices(ROLES).default('member'))
    .answer(
      async (client, id: string, user: string, { role }: { role: HouseholdRole }) => {
        const member = { user_id: await findUserId(client, user), role };
        return client.post<AdminHouseholdMemberResponse>(joinPath(PATH, id, 'members'), member, LOST_ADDITION);
      },
      ({ email, role }, id) => `${email} is ${role} of household ${id}.`,
    );
}

function addSetRole(households: Command): void {
  const description = 'Change the role of a member. Open codes that the user issued end when the role is member.';
  const example = `${EXAMPLES.householdId} ${EXAMPLES.email} admin`;
  addRemote(households, 'set-role <household_id> <user>', description, example)
    .addArgument(new Argument('<role>', 'of the user in the household').choices(ROLES))
    .answer(
      async (client, id: string, user: string, role: HouseholdRole) =>
        client.patch<AdminHouseholdMemberResponse>(await findMemberPath(client, id, user), { role }),
      ({ email, role }, id) => `${email} is ${role} of household ${id}.`,
    );
}

function addRemoveMember(households: Command): void {
  const description = 'Remove a member. Open codes that the user issued end, and no service takes them for a member.';
  const example = `${EXAMPLES.householdId} ${EXAMPLES.email}`;
  addRemote(households, 'remove-member <household_id> <user>', description, example).answer(
    async (client, id: string, user: string) => {
      const path = await findMemberPath(client, id, user);
      await client.delete(path);
      return { id, user_id: path.slice(path.lastIndexOf('/') + 1), removed: true };
    },
    (_result, id, user) => `${user} is no longer a member of household ${id}.`,
  );
}

async function findHousehold(client: AdminClient, id: string): Promise<AdminHouseholdResponse> {
  return client.get(joinPath(PATH, id));
}

async function findMemberPath(client: AdminClient, id: string, user: string): Promise<string> {
  return joinPath(PATH, id, 'members', await findUserId(client, user));
}
