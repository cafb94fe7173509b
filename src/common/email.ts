import { applyDecorators } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { isEmail, IsEmail, Matches } from 'class-validator';
import { EXAMPLES } from './examples.js';

/** @returns the form in which an address is stored and looked up */
function toCanonicalEmail(email: string): string {
  return email.toLowerCase();
}

const PRINTABLE_ASCII = /^[\x21-\x7e]{3,254}$/;
const EMAIL_OPTIONS = { allow_utf8_local_part: false };

/** `"alice"@x.org` is the mailbox of `alice@x.org` (RFC 5321 §4.1.2), and would be a second account of it. */
const WITHOUT_QUOTES = /^[^"]*$/;

/** Applies the rules of {@link NewEmailField} to an address of an import. @returns undefined for an address that they refuse */
export function parseNewEmail(text: string): string | undefined {
  const isAccepted = PRINTABLE_ASCII.test(text) && WITHOUT_QUOTES.test(text) && isEmail(text, EMAIL_OPTIONS);
  return isAccepted ? toCanonicalEmail(text) : undefined;
}

/**
 * An e-mail field. It accepts printable ASCII only, which excludes addresses that look like another one (full-width
 * letters, zero-width and bidi characters, the KELVIN SIGN).
 */
export function EmailField(): PropertyDecorator {
  return applyDecorators(
    ApiProperty({ type: String, format: 'email', maxLength: 254, example: EXAMPLES.email }),
    // ASCII is checked before lower-casing, so that no other character can become an ASCII one.
    Transform(({ value }: { value: unknown }) =>
      typeof value === 'string' && PRINTABLE_ASCII.test(value) ? toCanonicalEmail(value) : value,
    ),
    Matches(PRINTABLE_ASCII, { message: 'must be 3 to 254 printable ASCII characters' }),
    IsEmail(EMAIL_OPTIONS, { message: 'must be an e-mail address' }),
  );
}

/** An e-mail field for the address that an account is to get. Existing accounts may have a quoted one, and can log in. */
export function NewEmailField(): PropertyDecorator {
  return applyDecorators(EmailField(), Matches(WITHOUT_QUOTES, { message: 'must not contain a quotation mark' }));
}
