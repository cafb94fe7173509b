import { HOTP, Secret, TOTP } from 'otpauth';
import qrcode from 'qrcode-generator';
import { generateSecretBytes, isSameSecret } from '../crypto/secret.js';

/** What authenticator apps understand without exception: SHA-1, 6 digits, 30 seconds (RFC 6238 §1.2). */
const ALGORITHM = 'SHA1';
const DIGITS = 6;
const STEP_SECONDS = 30;
/** RFC 4226 §4, R6. */
const SECRET_BYTES = 20;
/** The code before and the code after are accepted too (RFC 6238 §5.2). */
const WINDOW = [0, -1, 1];
const QR_MARGIN = 4;

export function generateTotpSecret(): Buffer {
  return generateSecretBytes(SECRET_BYTES);
}

/** @returns the time step that the code belongs to; undefined for a wrong code */
export function findTimeStep(secret: Buffer, code: string, now: Date): number | undefined {
  const present = Math.floor(now.getTime() / 1_000 / STEP_SECONDS);
  const steps = WINDOW.map((offset) => present + offset);
  return steps.find((step) => isSameSecret(computeCode(secret, step), code));
}

/** RFC 4226 §5.3. */
export function computeCode(secret: Buffer, step: number): string {
  return HOTP.generate({ secret: toSecret(secret), algorithm: ALGORITHM, digits: DIGITS, counter: step });
}

export function toBase32(secret: Buffer): string {
  return toSecret(secret).base32;
}

/** The URI that authenticator apps read (the Key URI Format of Google Authenticator). */
export function toOtpauthUrl(secret: Buffer, issuer: string, label: string): string {
  const settings = { algorithm: ALGORITHM, digits: DIGITS, period: STEP_SECONDS };
  return new TOTP({ issuer, label, secret: toSecret(secret), ...settings }).toString();
}

/** @returns one path, a third of the size of what the library draws */
export function drawQrCode(text: string): string {
  const code = qrcode(0, 'M');
  code.addData(text);
  code.make();
  const size = code.getModuleCount();
  const at = Array.from({ length: size }, (_, index) => index);
  const dark = at.flatMap((row) =>
    at
      .filter((column) => code.isDark(row, column))
      .map((column) => `M${column + QR_MARGIN} ${row + QR_MARGIN}h1v1h-1z`),
  );
  const side = size + 2 * QR_MARGIN;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${side} ${side}" shape-rendering="crispEdges">` +
    `<path fill="#fff" d="M0 0h${side}v${side}H0z"/><path d="${dark.join('')}"/></svg>`
  );
}

function toSecret(secret: Buffer): Secret {
  return new Secret({ buffer: Uint8Array.from(secret).buffer });
}
