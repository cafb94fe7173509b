/**
 * The search field of every page: an id, a name, an e-mail address, a household, a request id, or a key. It is sent as a
 * form, so that neither an address nor a key stands in a URL; a key is identified by its digest.
 */
import { Post, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import { isIP } from 'node:net';
import type { VNode } from 'preact';
import type { IdentifiedKeyResponse } from '../api/admin/identify.admin.controller.js';
import { isId } from '../foundation/common/ids.js';
import { redactSecrets } from '../foundation/common/redaction.js';
import { computeDigest } from '../foundation/crypto/secret.js';
import { ProblemException } from '../foundation/problems/problems.js';
import { AdminApi, type AdminRoutes } from './admin-api.js';
import { ConsolePages } from './console-pages.js';
import { ConsoleRefusalError, getSession, readFields } from './console-requests.js';
import { ReadsOnly } from './console.guard.js';
import { mapCredentialTypes } from './credential-types.js';
import { NameLink } from './copyable.js';
import { Ago } from './moments.js';
import { Page, redirect, sendPage } from './page.js';
import { Table, type Cells } from './tables.js';
import { toAddress } from './addresses.js';

const ADDRESS = '/console/search';
/** The number of results of each kind; a further part of the name finds fewer. */
const LIMIT = '10';
const MAX_LENGTH = 512;
/** In X-API-Key, the node's id stands before the key. */
const ID_BEFORE_KEY = /^[0-9a-f-]{36}:/i;
/** The root key has no prefix. No name is that long without a blank. */
const LIKE_A_KEY = /^[\w+/=~.-]{32,}$/;
const SCOPE_NOTE =
  'Names of services are found whole, those of nodes, users and households by a part. What your scopes do not allow is not searched.';

interface Found {
  readonly kind: string;
  readonly name: string;
  readonly address: string;
}

type Search = () => Promise<Found[]>;

@ConsolePages('console/search')
export class SearchPage {
  constructor(private readonly api: AdminApi) {}

  @Post()
  @ReadsOnly()
  async search(@Req() request: Request, @Res() response: Response): Promise<void> {
    const asked = (readFields(request).query ?? '').trim();
    if (asked === '' || asked.length > MAX_LENGTH)
      throw new ConsoleRefusalError(400, 'Nothing to search for', `Type 1 to ${MAX_LENGTH} characters.`);
    const routes = this.api.bindTo(request);
    if (isKey(asked)) {
      const keys = await identify(request, routes, asked.replace(ID_BEFORE_KEY, ''));
      this.send(request, response, <KeyOwners keys={keys} />);
      return;
    }
    const next = isIP(asked) !== 0 ? toAddress('/console/explain', { about: asked }) : undefined;
    const found = next === undefined ? await this.find(routes, asked) : [];
    const [only] = found.length === 1 ? found : [];
    const unknownId = isId(asked) && found.length === 0 ? toAddress('/console/explain', { about: asked }) : undefined;
    const address = next ?? only?.address ?? unknownId;
    if (address === undefined) this.send(request, response, <Results found={found} />);
    else redirect(response, address);
  }

  private async find(routes: AdminRoutes, asked: string): Promise<Found[]> {
    const searches = isId(asked) ? listFinds(routes, asked.toLowerCase()) : listSearches(routes, asked);
    return (await Promise.all(searches.map((search) => tolerate(search)))).flat();
  }

  private send(request: Request, response: Response, content: VNode): void {
    sendPage(
      response,
      <Page title="Search" session={getSession(request)} at={ADDRESS}>
        {content}
        <p>
          {SCOPE_NOTE} A key is compared by its SHA-256 digest, and what you typed left this page only as the body of
          this form: it is in no address, log or record.
        </p>
      </Page>,
    );
  }
}

function isKey(asked: string): boolean {
  if (isId(asked)) return false;
  return redactSecrets(asked) !== asked || LIKE_A_KEY.test(asked.replace(ID_BEFORE_KEY, ''));
}

async function identify(request: Request, { identify: { identifyKeys } }: AdminRoutes, key: string) {
  const digests = [computeDigest(key).toString('hex')];
  return (await identifyKeys(request, { digests })).items;
}

/** A text that a list refuses as a filter, or an id that is unknown, has no match in that list. */
async function tolerate(search: Search): Promise<Found[]> {
  return search().catch((error: unknown) => {
    if (error instanceof ProblemException && (error.problem.status === 400 || error.problem.status === 404)) return [];
    throw error;
  });
}

const toUser = ({ id, email }: { id: string; email: string }): Found => ({
  kind: 'user',
  name: email,
  address: `/console/users/${id}`,
});
const toHousehold = ({ id, name }: { id: string; name: string | null }): Found => ({
  kind: 'household',
  name: name ?? id,
  address: `/console/households/${id}`,
});

function listFinds(routes: AdminRoutes, id: string): Search[] {
  const { users, households } = routes;
  const finds = mapCredentialTypes((type): Search[] => {
    const { find } = type.routes(routes);
    const address = `${type.address}/${id}`;
    return find.isAllowed ? [async () => [{ kind: type.noun, name: type.toName(await find(id)), address }]] : [];
  }).flat();
  if (users.getUserAsAdmin.isAllowed) finds.push(async () => [toUser(await users.getUserAsAdmin(id))]);
  if (households.getHousehold.isAllowed) finds.push(async () => [toHousehold(await households.getHousehold(id))]);
  return finds;
}

function listSearches(routes: AdminRoutes, text: string): Search[] {
  const { users, households } = routes;
  const searches = mapCredentialTypes((type): Search[] => {
    const { list } = type.routes(routes);
    if (!list.isAllowed) return [];
    const toFound = (items: Parameters<typeof type.toName>[0][]): Found[] =>
      items.map((item) => ({
        kind: type.noun,
        name: type.toName(item),
        address: `${type.address}/${type.toId(item)}`,
      }));
    return type.searchedBy.map(
      (name) => async () => toFound((await list({ [name]: text, live: 'true', limit: LIMIT })).items),
    );
  }).flat();
  if (users.searchUsers.isAllowed)
    searches.push(async () => (await users.searchUsers({ search: text, limit: LIMIT })).items.map(toUser));
  if (households.listHouseholds.isAllowed)
    searches.push(async () => (await households.listHouseholds({ search: text, limit: LIMIT })).items.map(toHousehold));
  return searches;
}

function Results({ found }: { found: readonly Found[] }): VNode {
  const addresses = new Map(found.map((each) => [each.address, each]));
  const rows = [...addresses.values()].map(({ kind, name, address }): Cells => [
    <NameLink address={address} name={name} />,
    kind,
  ]);
  return <Table caption="Found" head={['Name', 'What']} rows={rows} />;
}

function KeyOwners({ keys }: { keys: readonly IdentifiedKeyResponse[] }): VNode {
  if (keys.length === 0)
    return <p role="note">It looks like a key, and is none that this service knows and you may look for.</p>;
  return (
    <>
      {keys.map(({ kind, id, owner, live, current, last_used_at, last_used_for }) => (
        <p role="note">
          It is {current ? 'the current key' : 'the key before the last rotation'} of{' '}
          <KeyOwner kind={kind} id={id} owner={owner} />, and {live ? 'would be accepted now' : 'would be refused now'}.
          Last used: <Ago at={last_used_at} />
          {last_used_for !== null && `, at ${last_used_for}`}. If others can have seen it, rotate or revoke it.
        </p>
      ))}
    </>
  );
}

function KeyOwner({ kind, id, owner }: Pick<IdentifiedKeyResponse, 'kind' | 'id' | 'owner'>): VNode {
  const [page] = mapCredentialTypes((type) => (type.kind === kind ? [type.address] : [])).flat();
  if (page !== undefined && id !== null) return <NameLink address={`${page}/${id}`} name={owner} />;
  if (kind !== 'session') return <bdi>{owner}</bdi>;
  return <a href={`/console/users/${owner}`}>a session of this user</a>;
}
