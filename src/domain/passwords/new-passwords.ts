/**
 * Decides which new passwords are accepted, and hashes them: a minimum length, and not one that attackers guess first
 * (ASVS 6.2.4). There are no composition rules (ASVS 6.2.5).
 */
import { readFileSync } from 'node:fs';
import { Injectable } from '@nestjs/common';
import { dictionary } from '@zxcvbn-ts/language-common';
import type { Actor } from '../../foundation/access/actor.js';
import { toNetworks } from '../../foundation/common/network.js';
import { Environment } from '../../foundation/config/environment.js';
import { refuseField } from '../../foundation/problems/problems.js';
import { PasswordHasher, type PasswordHash } from './password-hasher.js';

const COMMON_COUNT = 10_000;

/** Frequent in leaks, but missing from zxcvbn's list, because zxcvbn detects repetitions and sequences by rule. */
const ADDITIONAL_PASSWORDS = [
  ...Array.from('0123456789ax', (character) => character.repeat(8)),
  ...'1111111111 0000000000 12121212 69696969 12341234 123123123 123123123123 11223344'.split(' '),
  ...'12345678 123456789 1234567890 0123456789 87654321 987654321 9876543210 0987654321 98765432'.split(' '),
  ...'admin123 admin1234 adminadmin administrator password123! password1! p@$$w0rd p@ssword'.split(' '),
  ...'asdasdasd asdfasdf qweqweqwe qwerqwer abcabcabc abcdabcd abcdefgh welcome123 letmein123'.split(' '),
];

@Injectable()
export class NewPasswords {
  private readonly minLength: number;
  private readonly common: ReadonlySet<string>;

  constructor(
    environment: Environment,
    private readonly hasher: PasswordHasher,
  ) {
    this.minLength = environment.passwordMinLength;
    this.common = loadCommonPasswords(environment.passwordBlocklist);
  }

  checkNewPassword(password: string, pointer = '/password'): void {
    if (Array.from(password).length < this.minLength)
      refuseField(pointer, `must be at least ${this.minLength} characters long`);
    if (this.common.has(password.toLowerCase()))
      refuseField(pointer, 'is one of the most commonly used passwords; choose another one');
  }

  /**
   * @param isKnown whether the caller has proved who it is, which gives it priority over anonymous clients in the queue
   */
  async hashNewPassword(password: string, { address }: Actor, isKnown = true): Promise<PasswordHash> {
    return this.hasher.hashPassword(password, { networks: toNetworks(address), isKnown });
  }
}

/**
 * @param source `common`: the 10,000 most used; `off`: none; otherwise the path of a file with one password per line
 * @returns the blocked passwords in lower case
 */
function loadCommonPasswords(source: string): ReadonlySet<string> {
  if (source === 'off') return new Set();
  if (source === 'common') return new Set([...dictionary['passwords'].slice(0, COMMON_COUNT), ...ADDITIONAL_PASSWORDS]);
  const lines = readFileSync(source, 'utf8').split(/\r?\n/);
  return new Set(lines.map((line) => line.toLowerCase()).filter(Boolean));
}
