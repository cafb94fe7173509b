import { Injectable } from '@nestjs/common';
import { refuseField } from '../problems/refused-fields.js';
import { Environment } from '../config/environment.js';
import { loadCommonPasswords } from './common-passwords.js';

/** Minimum length and the blocklist of common passwords. No composition rules (ASVS 6.2.1, 6.2.5). */
@Injectable()
export class PasswordPolicy {
  private readonly minLength: number;
  private readonly common: ReadonlySet<string>;

  constructor(environment: Environment) {
    this.minLength = environment.passwordMinLength;
    this.common = loadCommonPasswords(environment.passwordBlocklist);
  }

  /**
   * @param pointer the field of the body
   * @throws {ProblemException} validation_failed with the reason
   */
  check(password: string, pointer = '/password'): void {
    if (Array.from(password).length < this.minLength)
      refuseField(pointer, `must be at least ${this.minLength} characters long`);
    if (this.common.has(password.toLowerCase()))
      refuseField(pointer, 'is one of the most commonly used passwords; choose another one');
  }
}
