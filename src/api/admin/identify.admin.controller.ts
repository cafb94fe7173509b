import { Body, Post, Req } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { ArrayMaxSize, ArrayMinSize, IsArray, Matches } from 'class-validator';
import type { Request } from 'express';
import { getPrincipal } from '../../foundation/access/principals.js';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import { ID, NULLABLE_MOMENT, NULLABLE_TEXT } from '../../foundation/common/fields.js';
import { KEY_KIND_NAMES, KEY_KINDS, type KeyKindName } from '../../foundation/common/key-kinds.js';
import { EXAMPLES, type OperatorScope } from '../../foundation/common/names.js';
import { getClientAddress } from '../../foundation/common/network.js';
import { Environment } from '../../foundation/config/environment.js';
import { MAX_DIGESTS } from '../../foundation/config/limits.js';
import { computeDigest, isSameDigest, type SecretDigest } from '../../foundation/crypto/secret.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { isRefusal, determineKeyStatus } from '../../domain/keys/key-lifecycle.js';
import { readLastUses, type KeyColumns } from '../../domain/keys/key-record.js';
import { KeyStores } from '../../domain/keys/key-stores.js';
import { Throttle } from '../../foundation/throttling/throttle.js';
import { SessionsService } from '../../domain/tokens/sessions.service.js';

const DIGEST_PATTERN = /^[0-9a-f]{64}$/;
const DIGESTS_DETAIL = `must be a list of 1 to ${MAX_DIGESTS} SHA-256 digests in lower-case hexadecimal`;

type IdentifiedKind = KeyKindName | 'session';
const KINDS: IdentifiedKind[] = [...KEY_KIND_NAMES, 'session'];

/** An operator is told about credentials of a type with this scope, or with `read`. */
const getScope = (kind: IdentifiedKind): OperatorScope => (kind === 'session' ? 'users' : KEY_KINDS[kind].scope);

class IdentifyKeysRequest {
  @ApiProperty({
    type: 'array',
    items: { type: 'string', pattern: DIGEST_PATTERN.source, maxLength: 64 },
    minItems: 1,
    maxItems: MAX_DIGESTS,
    description: 'SHA-256 of each key as it was found, in lower-case hexadecimal',
    example: ['9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'],
  })
  @IsArray({ message: DIGESTS_DETAIL })
  @ArrayMinSize(1, { message: DIGESTS_DETAIL })
  @ArrayMaxSize(MAX_DIGESTS, { message: DIGESTS_DETAIL })
  @Matches(DIGEST_PATTERN, { each: true, message: DIGESTS_DETAIL })
  digests!: string[];
}

export class IdentifiedKeyResponse {
  @ApiProperty({ type: String, example: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08' })
  digest!: string;

  @ApiProperty({ enum: [...KINDS, 'root'], enumName: 'IdentifiedKind' }) kind!: IdentifiedKind | 'root';
  @ApiProperty({ ...ID, nullable: true, description: 'of the credential; null for the root key' }) id!: string | null;

  @ApiProperty({
    description:
      'room/name of a node, caller → target of an app credential, name of an operator, id of the user of a session, ' +
      'ADMIN_API_KEY of the root key',
    example: 'kitchen/speaker',
  })
  owner!: string;

  @ApiProperty({ description: 'whether a door would accept it now', example: true }) live!: boolean;
  @ApiProperty({ description: 'false: it is the key from before the last rotation', example: true }) current!: boolean;

  @ApiProperty({ ...NULLABLE_MOMENT, description: 'of the credential; of a session, its last refresh' })
  last_used_at!: string | null;

  @ApiProperty({ ...NULLABLE_TEXT, description: 'the service it was last used for', example: EXAMPLES.caller })
  last_used_for!: string | null;
}

export class IdentifiedKeysResponse {
  @ApiProperty({ type: [IdentifiedKeyResponse], description: 'digests of no credential are left out' })
  items!: IdentifiedKeyResponse[];

  @ApiProperty({
    enum: KINDS,
    enumName: 'SearchedKind',
    isArray: true,
    description: 'the kinds that were looked for: those of the operator’s scopes; all with `read`',
    example: KINDS,
  })
  searched!: IdentifiedKind[];
}

@AdminController('/keys')
export class IdentifyAdminController {
  constructor(
    private readonly keys: KeyStores,
    private readonly sessions: SessionsService,
    private readonly clock: ComparedClock,
    private readonly environment: Environment,
    private readonly throttle: Throttle,
  ) {}

  @Post('identify')
  @RequireAdmin('any', {
    summary: 'Tell whose keys these digests are of',
    description:
      'For keys that were found in a place where they should not be. The keys themselves are not sent. It reads whole tables: not ' +
      'for a loop. Of refresh tokens it knows the current one of each session. A call with digests that are of no credential ' +
      'counts as a wrong admin key, because one of them may be a guess of the root key.',
    returns: IdentifiedKeysResponse,
  })
  async identifyKeys(@Req() request: Request, @Body() body: IdentifyKeysRequest): Promise<IdentifiedKeysResponse> {
    const { operator } = getPrincipal(request, 'admin');
    const canIdentify = (kind: IdentifiedKind): boolean =>
      !operator || operator.scopes.includes('read') || operator.scopes.includes(getScope(kind));
    const searched = KINDS.filter(canIdentify);
    const digests = body.digests.map((text) => Buffer.from(text, 'hex') as SecretDigest);
    const items: IdentifiedKeyResponse[] = [];
    for (const kind of searched) items.push(...(await this.findOfKind(kind, digests)));
    const unknown = body.digests.filter((text) => items.every(({ digest }) => digest !== text));
    if (searched.includes('operator') && unknown.length > 0) {
      // An attacker could guess the root key here, so a call with unknown digests counts as a wrong admin key.
      await this.throttle.countCall('admin-key', getClientAddress(request));
      items.push(...this.findRootKey(unknown));
    }
    return { items, searched };
  }

  private async findOfKind(kind: IdentifiedKind, digests: SecretDigest[]): Promise<IdentifiedKeyResponse[]> {
    if (kind === 'session') return this.findSessions(digests);
    const found = await this.keys.getStore(kind).findOwners(digests);
    return found.flatMap(({ row, owner }) => this.toItems(digests, row, { kind, owner }));
  }

  private async findSessions(digests: SecretDigest[]): Promise<IdentifiedKeyResponse[]> {
    const found = await this.sessions.findByDigests(digests);
    return found.map(({ session, isLive }) => ({
      digest: session.tokenDigest.toString('hex'),
      kind: 'session',
      id: session.id,
      owner: session.userId,
      live: isLive,
      current: true,
      last_used_at: session.rotatedAt.toISOString(),
      last_used_for: null,
    }));
  }

  private findRootKey(digests: readonly string[]): IdentifiedKeyResponse[] {
    const { adminApiKey } = this.environment;
    const held = adminApiKey === undefined ? undefined : computeDigest(adminApiKey);
    const empty = { id: null, last_used_at: null, last_used_for: null };
    return digests
      .filter((digest) => held && isSameDigest(Buffer.from(digest, 'hex'), held))
      .map((digest) => ({ digest, kind: 'root', owner: 'ADMIN_API_KEY', live: true, current: true, ...empty }));
  }

  /** @returns two items when both keys of a rotation are among the digests */
  private toItems(
    digests: readonly SecretDigest[],
    row: KeyColumns,
    owner: { kind: IdentifiedKind; owner: string },
  ): IdentifiedKeyResponse[] {
    const isOf = (digest: SecretDigest): boolean =>
      [row.keyDigest, row.previousKeyDigest].some((held) => held && isSameDigest(held, digest));
    const { latest } = readLastUses(row);
    return digests
      .filter(isOf)
      .map((digest) => ({
        digest: digest.toString('hex'),
        ...owner,
        id: row.id,
        live: !isRefusal(determineKeyStatus(digest, row, this.clock)),
        current: isSameDigest(row.keyDigest, digest),
        last_used_at: latest?.at.toISOString() ?? null,
        last_used_for: latest?.service ?? null,
      }));
  }
}
