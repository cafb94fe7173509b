/** The pages of app credentials, nodes and operators, which all have keys (credential-types.ts). */
import type { Type } from '@nestjs/common';
import type { Request } from 'express';
import type { VNode } from 'preact';
import type { ExplanationResponse } from '../api/admin/key-explanation.dto.js';
import type { KeyResponse } from '../api/admin/key.dto.js';
import { Environment } from '../foundation/config/environment.js';
import { AdminApi } from './admin-api.js';
import { Confirmations } from './confirmations.js';
import { ConsolePages } from './console-pages.js';
import { readChanges } from './console-requests.js';
import { mapCredentialTypes, type CredentialType } from './credential-types.js';
import { Ago, Moment } from './moments.js';
import { listProperties, showValue, Value } from './properties.js';
import { ResourcePages } from './resource-pages.js';
import type { Description } from './resource-types.js';
import { Named, Secret } from './copyable.js';
import type { Cells, FactList } from './tables.js';
import type { FieldProps } from './fields.js';

export function State({ of }: { of: KeyResponse }): VNode {
  const { revoked_at, expires_at } = of;
  if (revoked_at !== null) return <span class="bad">revoked</span>;
  if (expires_at !== null && expires_at <= new Date().toISOString()) return <span class="bad">expired</span>;
  if (isInOverlap(of)) return <span class="warn">two keys</span>;
  return expires_at === null ? <span class="good">live</span> : <span class="warn">live, expires</span>;
}

/** Tells an operator whether the previous key can be ended without breaking a caller. */
function Overlap({ of }: { of: KeyResponse }): VNode {
  const { rotated_at, current_key_used_at, previous_key_used_at: usedAt, previous_key_used_for: service } = of;
  const isUsed = usedAt !== null && rotated_at !== null && usedAt > rotated_at;
  return (
    <>
      The old key is valid until <Moment at={of.previous_key_expires_at} />.{' '}
      {isUsed ? (
        <>
          It was used <Ago at={usedAt} />
          {service !== null && `, at ${service}`}.
        </>
      ) : (
        'It was not used since the rotation.'
      )}{' '}
      {current_key_used_at === null ? (
        'The new key was not used yet.'
      ) : (
        <>
          The new key was used <Ago at={current_key_used_at} />.
        </>
      )}
    </>
  );
}

function isInOverlap({ previous_key_expires_at }: KeyResponse): boolean {
  return previous_key_expires_at !== null && previous_key_expires_at > new Date().toISOString();
}

/** What the page of a key says in words of its own; it shows all other properties as they are. */
const SAID: ReadonlySet<string> = new Set<keyof KeyResponse>([
  'created_at',
  'updated_at',
  'expires_at',
  'revoked_at',
  'rotated_at',
  'previous_key_expires_at',
  'last_used_at',
  'current_key_used_at',
  'previous_key_used_at',
  'previous_key_used_for',
]);

abstract class CredentialPages<Row extends KeyResponse, Issued extends Row> extends ResourcePages<Row, Issued> {
  constructor(
    api: AdminApi,
    protected override readonly type: CredentialType<Row, Issued>,
    confirmations: Confirmations,
    private readonly environment: Environment,
  ) {
    super(api, type, confirmations);
  }

  /** Shows the defaults of the service. An operator may empty the targets of a node. */
  protected override listNewFields(): readonly FieldProps[] {
    const { nodeTargets, appKeyDays } = this.environment;
    const targets = {
      value: nodeTargets?.join(' '),
      hint: 'Services that accept its key, filled in from NODE_TARGETS. Empty: all.',
    };
    const expiry = { hint: `Empty: each key lives for ${appKeyDays} days (APP_KEY_DAYS).` };
    return super.listNewFields().map((field) => {
      if (field.name === 'targets' && nodeTargets) return { ...field, ...targets };
      const hasLife = field.name === 'expires_at' && appKeyDays !== undefined && this.type.getLifeDays;
      return hasLife ? { ...field, ...expiry } : field;
    });
  }

  protected toCells(item: Row): Cells {
    const restriction = showValue(item[this.type.restriction]) || 'all';
    return [
      <State of={item} />,
      <bdi>{restriction}</bdi>,
      <Ago at={item.created_at} />,
      <Ago at={item.expires_at} />,
      <Ago at={item.last_used_at} />,
    ];
  }

  protected isPossible(action: string, item: Row): boolean {
    return item.revoked_at === null && (action !== 'finish' || isInOverlap(item));
  }

  protected async describe(request: Request, id: string, found: Row): Promise<Description> {
    // The API does not explain operators.
    const answer = await this.type.explain?.(this.api.bindTo(request))(id, {});
    // The explanation wrote the uses that waited in memory, and the item was read before it.
    const item = answer ? { ...found, ...toUses(answer) } : found;
    const lastUse = <LastUse use={answer} lastUsedAt={item.last_used_at} />;
    const isUsed = item.last_used_at !== null;
    const facts = [
      ['State', <State of={item} />],
      ...(await this.listFacts(item)),
      ['Issued', <Ago at={item.created_at} />],
      ['Rotated', <Ago at={item.rotated_at} />],
      ['Expires', <Ago at={item.expires_at} />],
      ...(isInOverlap(item) ? [['Old key', <Overlap of={item} />] as const] : []),
      ...(item.revoked_at === null ? [] : [['Revoked', <Ago at={item.revoked_at} />] as const]),
      ['Last used', lastUse],
    ] as const;
    const use = isUsed ? <>It was last used {lastUse}.</> : <>It was never used.</>;
    const overlap = isInOverlap(item) && <Overlap of={item} />;
    return {
      facts,
      use: (
        <>
          {use} {overlap}
          {item.expires_at !== null && (
            <>
              {' '}
              It expires at <Moment at={item.expires_at} />, and {this.describeRenewal(item)}
            </>
          )}
        </>
      ),
    };
  }

  private describeRenewal(item: Row): string {
    const days = this.type.getLifeDays?.(item);
    return days == null
      ? 'a rotation does not change that: neither key is valid afterwards.'
      : `each key lives for ${days} days: a rotation makes one with a new end, and the old key keeps its own.`;
  }

  /** The properties of the API's answer, in its order. */
  private async listFacts(item: Row): Promise<FactList> {
    const { response, groupedBy, groupAddress, toId } = this.type;
    const group = groupedBy && showValue(item[groupedBy]);
    const names = await this.api.names.findNames([group ?? null]);
    return listProperties(response)
      .filter(({ name }) => !SAID.has(name) && item[name as keyof Row] !== toId(item))
      .map((property) => {
        const { label, name } = property;
        if (group !== undefined && name === groupedBy)
          return [label, <Named id={group} name={names.get(group)} address={`${groupAddress}/${group}`} />];
        return [label, <Value of={property} value={item[name as keyof Row]} />];
      });
  }

  protected override async offerKnown(request: Request, fields: readonly FieldProps[]) {
    const known = await this.api.findSuggestions(request);
    const services = [...new Set([...(this.environment.nodeTargets ?? []), ...known.services])].sort();
    const offered = { caller: services, target: services, targets: services, scopes: known.scopes };
    return fields.map((field) => {
      const isOffered = field.known === undefined && Object.hasOwn(offered, field.name);
      return isOffered ? { ...field, known: offered[field.name as keyof typeof offered] } : field;
    });
  }

  protected override async perform(request: Request, id: string, action: string, item: Row): Promise<VNode | string> {
    if (action !== 'rotate') return super.perform(request, id, action, item);
    const body = readChanges(request, this.findAction(action).fields?.(item) ?? []);
    return this.renderIssued(await this.type.routes(this.api.bindTo(request)).rotate(request, id, body));
  }

  protected renderIssued(issued: Issued): VNode {
    return (
      <>
        <p role="note">
          The key is shown only here, and only now. Keep it before you leave this page.
          {issued.expires_at !== null && (
            <>
              {' '}
              It expires at <Moment at={issued.expires_at} />.
            </>
          )}
        </p>
        {issued.previous_key_expires_at !== null && (
          <p>
            The old key is valid until <Moment at={issued.previous_key_expires_at} />.
          </p>
        )}
        {this.type.formatKey(issued).map(([format, text]) => (
          <Secret name={format} text={text} />
        ))}
        <p>
          <a href={this.toAddressOf(issued)}>
            To <bdi>{this.type.toName(issued)}</bdi>
          </a>
        </p>
      </>
    );
  }
}

/** The uses that an explanation knows, as the fields of a key. */
function toUses(answer: ExplanationResponse) {
  return {
    last_used_at: answer.last_accepted_at,
    current_key_used_at: answer.current_key_last_accepted_at,
    previous_key_used_at: answer.previous_key_last_accepted_at,
    previous_key_used_for: answer.previous_key_last_accepted_for,
  };
}

function LastUse({ use, lastUsedAt }: { use: ExplanationResponse | undefined; lastUsedAt: string | null }): VNode {
  return (
    <>
      <Ago at={use?.last_accepted_at ?? lastUsedAt} />
      {use?.last_accepted_for && `, at ${use.last_accepted_for}`}
    </>
  );
}

function createPages<Row extends KeyResponse, Issued extends Row>(type: CredentialType<Row, Issued>): Type<object> {
  @ConsolePages(type.address)
  class PagesOfType extends CredentialPages<Row, Issued> {
    constructor(api: AdminApi, confirmations: Confirmations, environment: Environment) {
      super(api, type, confirmations, environment);
    }
  }
  return PagesOfType;
}

export const CREDENTIAL_PAGES = mapCredentialTypes(createPages);
