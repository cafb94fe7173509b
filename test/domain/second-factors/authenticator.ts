import { isoCBOR } from '@simplewebauthn/server/helpers';
import { createHash, createPublicKey, randomBytes, sign, type KeyObject } from 'node:crypto';
import { generateKeyPair } from '../../../src/foundation/crypto/key-pair.js';
import { generateRsaKey } from '../../support/rsa-key.js';

const USER_PRESENT = 0x01;
const USER_VERIFIED = 0x04;
const MAY_BE_COPIED = 0x08;
const HAS_CREDENTIAL = 0x40;

interface Options {
  readonly origin?: string;
  readonly rpId?: string;
  /** Whether the authenticator asks for a PIN or a fingerprint. */
  readonly verifiesUser?: boolean;
  /** The step of the counter; 0: an authenticator without one. */
  readonly counterStep?: number;
  readonly isSynced?: boolean;
  /** The size of an RSA key; undefined: a key on the curve P-256. */
  readonly rsaBits?: number;
}

const sha256 = (data: string | Buffer): Buffer => createHash('sha256').update(data).digest();

const cbor = (value: Parameters<typeof isoCBOR.encode>[0]): Buffer => Buffer.from(isoCBOR.encode(value));

/** An authenticator in software, with the browser before it: one passkey. */
export class Authenticator {
  readonly id = randomBytes(32);
  counter = 0;
  /** Whether the private key may be copied to other devices. */
  isSynced: boolean;
  /** What the browser adds to the client data. */
  clientData: object = { crossOrigin: false };
  private readonly privateKey: KeyObject;
  private readonly publicKey: Buffer;
  private userHandle = '';

  constructor(private readonly options: Options = {}) {
    this.isSynced = options.isSynced ?? false;
    const { rsaBits } = options;
    this.privateKey = rsaBits ? generateRsaKey(rsaBits) : generateKeyPair().privateKey;
    const jwk = createPublicKey(this.privateKey).export({ format: 'jwk' });
    const [first, second] = (rsaBits ? [jwk.n, jwk.e] : [jwk.x, jwk.y]).map((part) => Buffer.from(part!, 'base64url'));
    const head: [number, number][] = rsaBits ? [[1, 3], [3, -257]] : [[1, 2], [3, -7], [-1, 1]]; // oxfmt-ignore
    const parts = rsaBits ? [-1, -2] : [-2, -3];
    this.publicKey = cbor(new Map<number, number | Buffer>([...head, [parts[0]!, first!], [parts[1]!, second!]]));
  }

  /** navigator.credentials.create() */
  create(options: { challenge: string; user: { id: string } }, statement = new Map<string, unknown>()) {
    this.userHandle = options.user.id;
    const credential = Buffer.concat([Buffer.alloc(16), Buffer.from([0, this.id.length]), this.id, this.publicKey]);
    const authData = Buffer.concat([this.describe(HAS_CREDENTIAL), credential]);
    const fmt = statement.size > 0 ? 'packed' : 'none';
    const attestation = new Map<string, unknown>([['fmt', fmt], ['attStmt', statement], ['authData', authData]]); // oxfmt-ignore
    return this.toJson({
      clientDataJSON: this.describeClient('webauthn.create', options.challenge).toString('base64url'),
      attestationObject: cbor(attestation as Map<string, Buffer>).toString('base64url'),
      transports: ['internal'],
    });
  }

  /** navigator.credentials.get() */
  get({ challenge }: { challenge: string }) {
    this.counter += this.options.counterStep ?? 1;
    const clientData = this.describeClient('webauthn.get', challenge);
    const authenticatorData = this.describe(0);
    const signature = sign('sha256', Buffer.concat([authenticatorData, sha256(clientData)]), this.privateKey);
    return this.toJson({
      clientDataJSON: clientData.toString('base64url'),
      authenticatorData: authenticatorData.toString('base64url'),
      signature: signature.toString('base64url'),
      userHandle: this.userHandle,
    });
  }

  private describe(flags: number): Buffer {
    const { rpId = 'localhost', verifiesUser = true } = this.options;
    const counter = Buffer.alloc(4);
    counter.writeUInt32BE(this.counter);
    const all = flags | USER_PRESENT | (verifiesUser ? USER_VERIFIED : 0) | (this.isSynced ? MAY_BE_COPIED : 0);
    return Buffer.concat([sha256(rpId), Buffer.from([all]), counter]);
  }

  private describeClient(type: string, challenge: string): Buffer {
    const { origin = 'http://localhost:7701' } = this.options;
    return Buffer.from(JSON.stringify({ type, challenge, origin, ...this.clientData }));
  }

  private toJson<Response extends object>(response: Response) {
    const id = this.id.toString('base64url');
    const attachment = { authenticatorAttachment: 'platform', clientExtensionResults: { credProps: { rk: true } } };
    return { id, rawId: id, type: 'public-key', response, ...attachment };
  }
}
