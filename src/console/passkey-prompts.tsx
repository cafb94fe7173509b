/**
 * What a form asks the browser for: a new passkey, or proof that the operator has one. console.js asks when the form is
 * sent, and puts the answer into its hidden field. Without JavaScript the page says what is missing.
 */
import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import type { VNode } from 'preact';
import {
  OperatorPasskeys,
  type AnswerKind,
  type PasskeyOwner,
  type VerifiedAnswer,
} from '../domain/operators/operator-passkeys.service.js';
import { parseJson } from '../foundation/common/json.js';
import { Environment } from '../foundation/config/environment.js';
import { refuseField } from '../foundation/problems/problems.js';
import { ConsoleRefusalError, readFields } from './console-requests.js';

/** The new passkey has a field of its own, because a form may ask for a proof too. */
type FieldName = 'passkey' | 'new_passkey';

function PasskeyField({ name, options }: { readonly name: FieldName; readonly options: object }): VNode {
  const asked = name === 'passkey' ? 'get' : 'create';
  return (
    <>
      <input type="hidden" name={name} data-passkey={asked} data-options={JSON.stringify(options)} />
      <p role="note">
        {asked === 'get'
          ? 'Your browser asks you for your passkey.'
          : 'Your browser asks you where to keep the passkey.'}
      </p>
      <p role="alert" class="bad" data-passkey-failure hidden>
        The browser gave no passkey, so nothing was sent. Try again, or reload the page if it has been open for more
        than 5 minutes.
      </p>
      <noscript>
        <p class="bad">A passkey needs JavaScript, which is off in this browser: turn it on for this address.</p>
      </noscript>
    </>
  );
}

@Injectable()
export class PasskeyPrompts {
  constructor(
    private readonly passkeys: OperatorPasskeys,
    private readonly environment: Environment,
  ) {}

  async renderRegistration(request: Request, owner: PasskeyOwner): Promise<VNode> {
    this.refuseAddressWithoutPasskeys(request);
    return <PasskeyField name="new_passkey" options={await this.passkeys.createPasskeyOptions(owner)} />;
  }

  async renderProof(request: Request, kind: AnswerKind, owner: PasskeyOwner): Promise<VNode> {
    this.refuseAddressWithoutPasskeys(request);
    return <PasskeyField name="passkey" options={await this.passkeys.createAnswerOptions(kind, owner)} />;
  }

  /** @throws {ProblemException} validation_failed when the form has none */
  readAnswer(request: Request, name: FieldName): object {
    const answer = parseJson(readFields(request)[name] ?? '');
    if (typeof answer === 'object' && answer !== null) return answer;
    return refuseField('/passkey', 'is missing; a passkey needs JavaScript');
  }

  /** @returns undefined for an invalid answer */
  async verifyProof(request: Request, kind: AnswerKind): Promise<VerifiedAnswer | undefined> {
    this.refuseAddressWithoutPasskeys(request);
    return this.passkeys.verifyAnswer(kind, this.readAnswer(request, 'passkey'));
  }

  /** Fails closed: an operator with a passkey gets in nowhere else, also when the service does not know its address. */
  private refuseAddressWithoutPasskeys({ protocol, headers: { host = '' } }: Request): void {
    const { webauthnOrigins = [] } = this.environment;
    if (webauthnOrigins.includes(`${protocol}://${host}`)) return;
    const advice =
      'Passkeys belong to the addresses in WEBAUTHN_ORIGINS of the service, and this address of the console is not one of ' +
      'them. Open the console at one of them, or add this one and restart the service.';
    throw new ConsoleRefusalError(403, 'No passkeys at this address', advice);
  }
}
