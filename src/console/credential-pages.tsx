/** The pages of what has a key: app credentials, nodes and operators (credential-types.ts). */
import type { Request } from 'express';
import type { VNode } from 'preact';
import { ExplanationsAdminController, type ExplanationResponse } from '../api/admin/explanations.admin.controller.js';
import { RotateRequest, type KeyResponse } from '../api/admin/key.dto.js';
import { AdminApi } from './admin-api.js';
import { ConsolePages, readFields } from './console-requests.js';
import { APPS, NODES, OPERATORS, showValue, type Credential, type CredentialType } from './credential-types.js';
import { ResourcePages, type Description } from './resource-pages.js';
import { Ago, Moment, Secret, type Cells } from './view.js';

export function State({ of: { revoked_at, expires_at, previous_key_expires_at } }: { of: KeyResponse }): VNode {
  const now = new Date().toISOString();
  if (revoked_at !== null) return <span class="bad">revoked</span>;
  if (expires_at !== null && expires_at <= now) return <span class="bad">expired</span>;
  if (previous_key_expires_at !== null && previous_key_expires_at > now) return <span class="warn">two keys</span>;
  return expires_at === null ? <span class="good">live</span> : <span class="warn">live, expires</span>;
}

/** Answers whether the old key may be dropped. */
export function Overlap({ of }: { of: KeyResponse }): VNode {
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

abstract class CredentialPages extends ResourcePages<Credential> {
  constructor(
    api: AdminApi,
    protected override readonly type: CredentialType,
  ) {
    super(api, type);
  }

  protected toCells(item: Credential): Cells {
    const [, member] = this.type.restriction;
    return [<State of={item} />, <bdi>{showValue(item[member]) || 'all'}</bdi>, <Ago at={item.last_used_at} />];
  }

  protected isPossible(action: string, item: Credential): boolean {
    return item.revoked_at === null && (action !== 'finish' || isInOverlap(item));
  }

  protected async describe(request: Request, id: string, item: Credential): Promise<Description> {
    const { explain, restriction, toGroup } = this.type;
    const [title, member] = restriction;
    // Operators have no explanation.
    const answer = explain && (await this.api.call(request, ExplanationsAdminController, explain, id, {}));
    const lastUse = <LastUse use={answer} lastUsedAt={item.last_used_at} />;
    const isUsed = answer ? answer.last_accepted_at !== null : item.last_used_at !== null;
    const group = toGroup?.(item);
    const facts = [
      ['State', <State of={item} />],
      ...(group ? [['Belongs to', <a href={group.address}>{group.text}</a>] as const] : []),
      [title, showValue(item[member]) || 'all'],
      ['Issued', <Moment at={item.created_at} />],
      ['Rotated', <Moment at={item.rotated_at} />],
      ['Expires', <Moment at={item.expires_at} />],
      ...(item.previous_key_expires_at === null ? [] : [['Old key', <Overlap of={item} />] as const]),
      ...(item.revoked_at === null ? [] : [['Revoked', <Moment at={item.revoked_at} />] as const]),
      ['Last used', lastUse],
    ] as const;
    const use = isUsed ? <>It was last used {lastUse}.</> : <>It was never used.</>;
    const overlap = isInOverlap(item) && <Overlap of={item} />;
    return {
      facts,
      use: (
        <>
          {use} {overlap}
        </>
      ),
    };
  }

  protected async issue(request: Request): Promise<VNode> {
    const body = await this.api.read('body', this.type.issueBody, this.readBody(request, undefined));
    return this.renderIssued((await this.call(request, this.type.handlers.issue, request, body)) as Credential);
  }

  protected async perform(request: Request, id: string, action: string, item: Credential): Promise<VNode | string> {
    const { handler } = this.findAction(action);
    if (action === 'rotate') {
      const { overlap_hours } = readFields(request);
      const sent = { overlap_hours: overlap_hours ? Number(overlap_hours) : undefined };
      const rotation = await this.api.read('body', RotateRequest, sent);
      return this.renderIssued((await this.call(request, handler, request, id, rotation)) as Credential);
    }
    if (action === 'change') {
      const body = await this.api.read('body', this.type.changeBody, this.readBody(request, item));
      await this.call(request, handler, request, id, body);
    } else await this.call(request, handler, request, id);
    return this.toAddressOf(item);
  }

  /** @param before the credential that changes: a field that was emptied becomes null, and an unchanged one is not sent */
  private readBody(request: Request, before: Credential | undefined): object {
    const sent = readFields(request);
    const fields = before ? this.type.changeable : this.type.fields;
    const entries = fields.map(({ name, isList }) => {
      const text = (sent[name] ?? '').trim();
      if (text === (before ? showValue(before[name]) : '')) return [name, undefined];
      if (text === '') return [name, null];
      return [name, isList ? text.split(/[\s,]+/) : text];
    });
    return Object.fromEntries(entries) as object;
  }

  private renderIssued(issued: Credential): VNode {
    return (
      <>
        <p role="note">The key is shown only here, and only now. Keep it before you leave this page.</p>
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

function LastUse({ use, lastUsedAt }: { use: ExplanationResponse | undefined; lastUsedAt: string | null }): VNode {
  return (
    <>
      <Ago at={use?.last_accepted_at ?? lastUsedAt} />
      {use?.last_accepted_for && `, at ${use.last_accepted_for}`}
    </>
  );
}

export const CREDENTIAL_PAGES = [APPS, NODES, OPERATORS].map((type) => {
  @ConsolePages(type.address)
  class KindPages extends CredentialPages {
    constructor(api: AdminApi) {
      super(api, type);
    }
  }
  return KindPages;
});
