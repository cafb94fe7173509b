import { Inject, Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { IsNull, LessThanOrEqual, MoreThan, type Repository } from 'typeorm';
import { Clock } from '../common/clock.js';
import { isId, newId } from '../common/ids.js';
import { pageOf, type Page, type PageRequest } from '../common/page.js';
import { ProblemException } from '../common/problem.exception.js';
import { problems } from '../common/problems.js';
import { KeyStore } from '../credentials/key-store.js';
import { violatedConstraint } from '../database/database-failure.js';
import { AppCredential } from './app-credential.entity.js';

export interface AppIdentity {
  readonly caller: string;
  readonly target: string;
}

/** Injection token of the apps' keys. */
export const APP_KEYS = Symbol('APP_KEYS');
export type AppKeys = KeyStore<AppCredential, AppIdentity>;

export interface AppFilter {
  readonly caller: string | undefined;
  readonly target: string | undefined;
}

/** Which service may call which. What happens to the keys is in {@link KeyStore}. */
@Injectable()
export class AppCredentialsService {
  constructor(
    @InjectRepository(AppCredential) private readonly credentials: Repository<AppCredential>,
    @Inject(APP_KEYS) readonly keys: AppKeys,
    private readonly clock: Clock,
  ) {}

  /** @throws {ProblemException} app_credential_exists while the pair has a live one */
  async mint(
    caller: string,
    target: string,
    expiresAt: Date | null,
  ): Promise<{ credential: AppCredential; key: string }> {
    const { key, columns } = this.keys.issue();
    const now = this.clock.now();
    const credential = this.credentials.create({
      id: newId(),
      caller,
      target,
      expiresAt,
      ...columns,
      createdAt: now,
      updatedAt: now,
    });
    try {
      // An expired credential is dead, but still holds the pair's place. To revoke it and then fail loses nothing: no
      // transaction, whose rollback would wait for a silent database a second time.
      const expired = { caller, target, revokedAt: IsNull(), expiresAt: LessThanOrEqual(now) };
      await this.credentials.update(expired, { revokedAt: now, updatedAt: now });
      await this.credentials.insert(credential);
    } catch (error) {
      if (violatedConstraint(error) === 'app_credentials_live_pair_key')
        throw new ProblemException(problems.appCredentialExists);
      throw error;
    }
    return { credential, key };
  }

  /** @throws {ProblemException} not_found, also for an id that is no UUID */
  async find(id: string): Promise<AppCredential> {
    const credential = isId(id) ? await this.credentials.findOneBy({ id }) : null;
    if (!credential) throw new ProblemException(problems.notFound);
    return credential;
  }

  async list(page: PageRequest, { caller, target }: AppFilter): Promise<Page<AppCredential>> {
    const where = {
      ...(caller !== undefined && { caller }),
      ...(target !== undefined && { target }),
      ...(page.after !== undefined && { id: MoreThan(page.after) }),
    };
    return pageOf(await this.credentials.find({ where, order: { id: 'ASC' }, take: page.limit + 1 }), page);
  }
}
