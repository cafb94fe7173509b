/**
 * The bulk action of a type: the operator chooses rows in the list, a page says what the action will do to them, and the
 * list says afterwards how many were changed.
 */
import type { Request } from 'express';
import type { VNode } from 'preact';
import { ProblemException, problems } from '../foundation/problems/problems.js';
import { toAddress } from './addresses.js';
import type { AdminApi } from './admin-api.js';
import type { Confirmations } from './confirmations.js';
import { getSession, readFields, type Fields } from './console-requests.js';
import { NameLink } from './copyable.js';
import { splitWords, type RefusedForm } from './fields.js';
import { Form, FormError } from './forms.js';
import { Ago } from './moments.js';
import { nameGroups } from './resource-table.js';
import { toAddressOf, type BulkAction, type BulkRoute, type ResourceType } from './resource-types.js';

const DAY_MS = 86_400_000;
/** The resources that the page of a bulk action names; it counts the others. */
const MAX_NAMED = 10;

function countNouns(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

export class BulkActions<Resource> {
  constructor(
    private readonly api: AdminApi,
    private readonly type: ResourceType<Resource>,
    private readonly confirmations: Confirmations,
  ) {}

  /** @returns those that the operator may choose */
  listChoices(request: Request, items: readonly Resource[]): ReadonlySet<Resource> {
    const { bulk } = this.type;
    return new Set(bulk?.route(this.api.bindTo(request))?.isAllowed ? items.filter(bulk.isPossible) : []);
  }

  /** @returns the table, in a form when there are choices */
  renderChoices(request: Request, query: Fields, choices: ReadonlySet<Resource>, table: VNode): VNode {
    const { address, bulk, toId } = this.type;
    if (!bulk || choices.size === 0) return table;
    const form = { session: getSession(request), action: `${address}/choose`, layout: 'many' };
    const filter = <input type="hidden" name="filter" value={toAddress('', { ...query, cursor: undefined })} />;
    return (
      <>
        <Form {...form} submit={`${bulk.title} the chosen ones …`}>
          {filter}
          {table}
        </Form>
        <Form {...form} submit={`${bulk.title} all ${choices.size} of this page …`} look="outline secondary">
          {filter}
          <input type="hidden" name="ids" value={[...choices].map(toId).join(' ')} />
        </Form>
      </>
    );
  }

  /** @returns the page that asks for confirmation */
  async renderQuestion(request: Request, refused?: RefusedForm): Promise<{ title: string; content: VNode }> {
    const { address, noun, toId } = this.type;
    const bulk = this.findBulk(request);
    await bulk.route.requireScope();
    const { filter = '' } = readFields(request);
    const chosen = (await this.findChosen(request)).filter(bulk.isPossible);
    if (chosen.length === 0) {
      const content = (
        <>
          <p role="alert">
            Choose at least one {noun} in the list: those that can be {bulk.done} have a check box.
          </p>
          <p>
            <a href={address}>Back to the list</a>
          </p>
        </>
      );
      return { title: bulk.title, content };
    }
    const title = `${bulk.title} ${countNouns(chosen.length, noun)}`;
    const content = (
      <>
        {refused && <FormError refused={refused} fields={[]} />}
        {await this.describeChosen(chosen, bulk)}
        <Form session={getSession(request)} action={`${address}/chosen`} submit={title}>
          <input type="hidden" name="ids" value={chosen.map(toId).join(' ')} />
          <input type="hidden" name="filter" value={filter} />
          {await this.confirmations.renderProof(request, refused)}
        </Form>
        <p>
          <a href={toAddress(address, this.readFilter(filter))}>Back to the list</a>
        </p>
      </>
    );
    return { title, content };
  }

  /** Says how many there are, names the first ones, and shows who would notice. */
  private async describeChosen(
    chosen: readonly Resource[],
    { effect, lastUse }: Pick<BulkAction<Resource>, 'effect' | 'lastUse'>,
  ): Promise<VNode> {
    const named = chosen.slice(0, MAX_NAMED);
    const groups = await nameGroups(this.api.names, this.type, named);
    const dayAgo = new Date(Date.now() - DAY_MS).toISOString();
    const used = chosen.filter((each) => (lastUse(each) ?? '') > dayAgo).length;
    return (
      <>
        <p role="note">
          {effect} Used in the last 24 hours: {used} of {chosen.length}.
        </p>
        <ul>
          {named.map((each, index) => (
            <li>
              <NameLink address={toAddressOf(this.type, each)} name={this.type.toName(each)} />
              {groups?.[index] && `, ${groups[index].text} (${groups[index].id})`}, last used:{' '}
              <Ago at={lastUse(each)} />
            </li>
          ))}
          {chosen.length > MAX_NAMED && <li>and {chosen.length - MAX_NAMED} more</li>}
        </ul>
      </>
    );
  }

  /** @returns the address of the list, with what was done */
  async perform(request: Request): Promise<string> {
    const { name, route } = this.findBulk(request);
    await this.confirmations.requireProof(request);
    const { ids = '', filter = '' } = readFields(request);
    const { revoked } = await route(request, { ids: splitWords(ids) });
    return toAddress(this.type.address, { ...this.readFilter(filter), done: name, count: String(revoked.length) });
  }

  /** @returns undefined when the address does not say that the bulk action was done */
  describeDone(done: string | undefined, count = ''): string | undefined {
    const { bulk, noun } = this.type;
    return bulk && done === bulk.name && /^\d{1,3}$/.test(count)
      ? `${countNouns(Number(count), noun)} ${bulk.done}`
      : undefined;
  }

  /** Reads them one by one, so that a long list takes one connection of the pool. Unknown ids are left out. */
  private async findChosen(request: Request): Promise<Resource[]> {
    const { find } = this.type.routes(this.api.bindTo(request));
    const chosen: Resource[] = [];
    for (const id of new Set(splitWords(readFields(request).ids ?? ''))) {
      const isUnknown = (error: unknown) => error instanceof ProblemException && error.problem === problems.notFound;
      const found = await find(id).catch((error: unknown) => {
        if (!isUnknown(error)) throw error;
      });
      if (found) chosen.push(found);
    }
    return chosen;
  }

  /** @returns the filters of the list from which the resources were chosen */
  private readFilter(filter: string): Fields {
    const sent = new URLSearchParams(filter.replace(/^[?]/, ''));
    return Object.fromEntries(
      ['sort', ...this.type.filters.map(({ name }) => name)].map((name) => [name, sent.get(name) ?? undefined]),
    );
  }

  /** @throws {ProblemException} not_found when the type has no bulk action */
  private findBulk(request: Request): Omit<BulkAction<Resource>, 'route'> & { readonly route: BulkRoute } {
    const { bulk } = this.type;
    const route = bulk?.route(this.api.bindTo(request));
    if (!bulk || !route) throw new ProblemException(problems.notFound);
    return { ...bulk, route };
  }
}
