/**
 * Decides which new passwords are accepted, and hashes them: a minimum length, and none that attackers guess first
 * (guessable-passwords.ts) or that the operator's breach check knows (breached-passwords.ts). There are no composition
 * rules (ASVS 6.2.5).
 */
import { readFileSync } from 'node:fs';
import { Injectable } from '@nestjs/common';
import { dictionary } from '@zxcvbn-ts/language-common';
import type { Actor } from '../../foundation/access/actor.js';
import { toNetworks } from '../../foundation/common/network.js';
import { Environment, getProductName } from '../../foundation/config/environment.js';
import { refuseField } from '../../foundation/problems/problems.js';
import { BreachedPasswords } from './breached-passwords.js';
import { GuessablePasswords, listContextWords } from './guessable-passwords.js';
import { PasswordHasher, type PasswordHash } from './password-hasher.js';

/** Names of accounts that every attacker tries. */
const ACCOUNT_NAMES = ['admin', 'administrator'];

interface NewPassword {
  readonly password: string;
  /** The address of the account; undefined while the account is not known. */
  readonly email?: string | undefined;
  /** The field of the request. */
  readonly pointer: string;
}

@Injectable()
export class NewPasswords {
  private readonly minLength: number;
  private readonly commonPasswords: readonly string[] | undefined;
  private guessable: GuessablePasswords | undefined;
  private readonly contextWords: ReadonlySet<string>;

  constructor(
    environment: Environment,
    private readonly hasher: PasswordHasher,
    private readonly breached: BreachedPasswords,
  ) {
    this.minLength = environment.passwordMinLength;
    this.commonPasswords = loadCommonPasswords(environment.passwordBlocklist);
    const { serviceName, passwordContextWords = [] } = environment;
    const names = [getProductName(environment), serviceName, ...passwordContextWords, ...ACCOUNT_NAMES];
    this.contextWords = listContextWords(names);
  }

  /** After the first password costs no more than a millisecond, so that callers check before they look anything up. */
  checkNewPassword({ password, email, pointer }: NewPassword): void {
    if (Array.from(password).length < this.minLength)
      refuseField(pointer, `must be at least ${this.minLength} characters long`);
    const words = new Set([...this.contextWords, ...listContextWords(email === undefined ? [] : [email])]);
    if (this.isGuessable(password, words))
      refuseField(
        pointer,
        'is one of the most commonly used passwords, or made of common words, names of the account or the service, ' +
          'repetitions or rows of the keyboard; choose another one',
      );
  }

  /**
   * @param isKnown whether the caller has proved who it is, which gives it priority over anonymous clients in the queue
   */
  async hashNewPassword(given: NewPassword, { address }: Actor, isKnown = true): Promise<PasswordHash> {
    this.checkNewPassword(given);
    const { password, pointer } = given;
    if (await this.breached.isBreached(password))
      refuseField(pointer, 'is in a list of passwords from data breaches; choose another one');
    return this.hasher.hashPassword(password, { networks: toNetworks(address), isKnown });
  }

  /** The pieces are made for the first password, because they would take 14 ms of each start. */
  private isGuessable(password: string, contextWords: ReadonlySet<string>): boolean {
    if (!this.commonPasswords) return false;
    this.guessable ??= new GuessablePasswords(this.commonPasswords, this.minLength);
    return this.guessable.isGuessable(password, contextWords);
  }
}

/**
 * @param source `common`: the most used ones; `off`: undefined; otherwise the path of a file with one password per line
 * @returns the passwords in lower case, the most used first
 */
function loadCommonPasswords(source: string): readonly string[] | undefined {
  if (source === 'off') return undefined;
  if (source === 'common') return dictionary['passwords'];
  const lines = readFileSync(source, 'utf8').split(/\r?\n/);
  return lines.map((line) => line.toLowerCase()).filter(Boolean);
}
