import { Injectable } from '@nestjs/common';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import { Environment } from '../config/environment.js';
import { commonPasswords } from './common-passwords.js';

/** Length and the list of common passwords; no rules of composition (ASVS 6.2.1, 6.2.5). */
@Injectable()
export class PasswordPolicy {
  private readonly minLength: number;
  private readonly common: ReadonlySet<string>;

  constructor(environment: Environment) {
    this.minLength = environment.passwordMinLength;
    this.common = commonPasswords(environment.passwordBlocklist);
  }

  /** @throws {ProblemException} validation_failed with the reason */
  accept(password: string): void {
    if (Array.from(password).length < this.minLength) refuse(`must be at least ${this.minLength} characters long`);
    if (this.common.has(password.toLowerCase()))
      refuse('is one of the most commonly used passwords; choose another one');
  }
}

function refuse(detail: string): never {
  throw new ProblemException(problems.validationFailed, { errors: [{ pointer: '/password', detail }] });
}
