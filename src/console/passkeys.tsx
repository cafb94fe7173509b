/** The operator's own passkeys: list, add, remove. Other operators' passkeys are removed through the API. */
import { Get, Param, Post, Query, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { ComponentChildren, VNode } from 'preact';
import { OperatorPasskeys, type PasskeyOwner } from '../domain/operators/operator-passkeys.service.js';
import type { Passkey } from '../domain/webauthn/passkey-rows.js';
import { toActor } from '../foundation/access/actor.js';
import type { OperatorIdentity } from '../foundation/access/principals.js';
import { LabelField } from '../foundation/common/fields.js';
import { createValidationPipe } from '../foundation/http/validation.js';
import { ProblemException, problems } from '../foundation/problems/problems.js';
import { PASSKEYS, toAddress } from './addresses.js';
import { Confirmations } from './confirmations.js';
import { ConsolePages } from './console-pages.js';
import {
  ConsoleRefusalError,
  getSession,
  keepForm,
  readFields,
  refuseOutdated,
  type Fields,
} from './console-requests.js';
import type { RefusedForm } from './fields.js';
import { Form } from './forms.js';
import { Moment } from './moments.js';
import { Page, redirect, sendPage } from './page.js';
import { PasskeyPrompts } from './passkey-prompts.js';
import { Table } from './tables.js';

const NAME = { label: 'Name', name: 'name', isRequired: true, hint: 'By which you recognise it, such as: phone.' };
const ABOVE = [{ address: PASSKEYS, name: 'Your passkeys' }];
const EFFECT =
  'From now on the console asks for a passkey beside your key. Sessions that began without one end, this one too. The API ' +
  'accepts the key alone, because programs call it.';

class NewPasskey {
  @LabelField('phone') name!: string;
}

@ConsolePages('console/passkeys')
export class PasskeyPages {
  private readonly pipe = createValidationPipe();

  constructor(
    private readonly passkeys: OperatorPasskeys,
    private readonly prompts: PasskeyPrompts,
    private readonly confirmations: Confirmations,
  ) {}

  @Get()
  async show(@Req() request: Request, @Res() response: Response, @Query() { done }: Fields): Promise<void> {
    const listed = await this.passkeys.listPasskeys(getOperator(request).id);
    const rows = listed.map(({ id, name, isSynced, createdAt, lastUsedAt }) => [
      <bdi>{name}</bdi>,
      isSynced ? 'may be copied to other devices' : 'on one device',
      <Moment at={createdAt.toISOString()} />,
      lastUsedAt ? <Moment at={lastUsedAt.toISOString()} /> : 'never',
      <a href={`${PASSKEYS}/${id}/remove`}>Remove …</a>,
    ]);
    const page = (
      <>
        {done !== undefined && <p role="status">Done.</p>}
        <p class="actions">
          <a href={`${PASSKEYS}/new`}>Add a passkey …</a>
        </p>
        <Table caption="Passkeys" head={['Name', 'Kept', 'Added', 'Last used', '']} rows={rows} />
      </>
    );
    sendPage(response, render(request, 'Your passkeys', page));
  }

  @Get('new')
  async showNew(@Req() request: Request, @Res() response: Response): Promise<void> {
    sendPage(response, await this.renderNew(request));
  }

  @Post()
  async add(@Req() request: Request, @Res() response: Response): Promise<void> {
    const operator = getOperator(request);
    refuseOutdated(request, toSeen(await this.findOwner(request)));
    keepForm(request, (refused) => this.renderNew(request, refused));
    await this.confirmations.requireProof(request);
    const sent = { name: readFields(request).name };
    const { name } = (await this.pipe.transform(sent, { type: 'body', metatype: NewPasskey })) as NewPasskey;
    const answer = this.prompts.readAnswer(request, 'new_passkey');
    await this.passkeys.registerPasskey(operator, { name, answer }, toActor(request));
    redirect(response, toAddress(PASSKEYS, { done: 'added' }));
  }

  @Get(':id/remove')
  async askToRemove(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    sendPage(response, await this.renderRemoval(request, await this.findPasskey(request, id)));
  }

  @Post(':id/remove')
  async remove(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    const passkey = await this.findPasskey(request, id);
    refuseOutdated(request, toSeen(await this.findOwner(request)));
    keepForm(request, (refused) => this.renderRemoval(request, passkey, refused));
    await this.confirmations.requireProof(request);
    await this.passkeys.removePasskey(getOperator(request).id, passkey.id, toActor(request));
    redirect(response, toAddress(PASSKEYS, { done: 'removed' }));
  }

  private async renderNew(request: Request, refused?: RefusedForm): Promise<VNode> {
    const owner = await this.findOwner(request);
    const form = (
      <Form
        session={getSession(request)}
        action={PASSKEYS}
        submit="Add the passkey"
        seen={toSeen(owner)}
        fields={[NAME]}
        refused={refused}
      >
        {owner.passkeys.length === 0 && <p role="note">{EFFECT}</p>}
        {await this.confirmations.renderProof(request, refused)}
        {await this.prompts.renderRegistration(request, owner)}
      </Form>
    );
    return render(request, 'Add a passkey', form, ABOVE);
  }

  private async renderRemoval(request: Request, { id, name }: Passkey, refused?: RefusedForm): Promise<VNode> {
    const owner = await this.findOwner(request);
    const form = (
      <Form
        session={getSession(request)}
        action={`${PASSKEYS}/${id}/remove`}
        submit="Remove"
        seen={toSeen(owner)}
        refused={refused}
      >
        <p role="note">
          Sessions of the console that began with it end.{' '}
          {owner.passkeys.length === 1 && 'Your key alone opens the console then.'}
        </p>
        {await this.confirmations.renderProof(request, refused)}
      </Form>
    );
    return render(request, `Remove: ${name}`, form, ABOVE);
  }

  private async findOwner(request: Request): Promise<PasskeyOwner> {
    const owner = await this.passkeys.readOwner(getOperator(request).id);
    if (!owner) throw new ProblemException(problems.notFound);
    return owner;
  }

  private async findPasskey(request: Request, id: string): Promise<Passkey> {
    const found = (await this.passkeys.listPasskeys(getOperator(request).id)).find((each) => each.id === id);
    if (!found) throw new ProblemException(problems.notFound);
    return found;
  }
}

/** What a form was shown for: the first passkey and the last one change what opens the console. */
function toSeen({ passkeys }: PasskeyOwner): string {
  return String(passkeys.length);
}

function render(request: Request, title: string, children: ComponentChildren, above?: typeof ABOVE): VNode {
  return (
    <Page title={title} session={getSession(request)} at={PASSKEYS} above={above}>
      {children}
    </Page>
  );
}

/** @throws {ConsoleRefusalError} for the root key */
function getOperator(request: Request): OperatorIdentity {
  const { operator } = getSession(request).principal;
  const advice = 'The root key has none. Issue a key to each operator, who adds a passkey here.';
  if (!operator) throw new ConsoleRefusalError(403, 'Passkeys belong to operators', advice);
  return operator;
}
