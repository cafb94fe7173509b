/** What handlers read from a request: its session, the fields of its form, the filters of its list. */
import type { Request } from 'express';
import type { VNode } from 'preact';
import { refuseHostileText } from '../foundation/http/validation.js';
import { ProblemException, problems } from '../foundation/problems/problems.js';
import { toAddress } from './addresses.js';
import type { Unvalidated } from './admin-api.js';
import { splitWords, type FieldProps, type RefusedForm } from './fields.js';
import { CALENDAR_ZONE, isShownMoment, isTimeZone, readMoments, resolveMoment } from './moments.js';
import type { PageSession } from './navigation.js';
import { redirect } from './page.js';

/** Enough for the check boxes of a page of 100 rows. */
const MAX_FIELDS = 128;
/** Enough for 64 scopes or targets of 100 letters each. */
const MAX_FORM_LENGTH = 8_192;

/** The console refuses a request, and its page says why. */
export class ConsoleRefusalError extends Error {
  override readonly name = 'ConsoleRefusalError';

  constructor(
    readonly status: number,
    readonly title: string,
    readonly advice: string,
  ) {
    super(title);
  }
}

declare module 'express-serve-static-core' {
  interface Request {
    /** Set by the guard of a page behind the login. */
    consoleSession?: PageSession;
    /** The number of the form that this request claimed. */
    claimedForm?: string;
    formFields?: Fields;
    /** Renders the page of a refused form again. */
    keptForm?: (refused: RefusedForm) => VNode | Promise<VNode>;
  }
}

/** Makes a refusal show the form again, with what was typed and what is wrong beside the field. */
export function keepForm(request: Request, render: NonNullable<Request['keptForm']>): void {
  request.keptForm = render;
}

export function getSession({ consoleSession: session }: Request): PageSession {
  if (!session) throw new Error('The route has no guard of the console');
  return session;
}

export type Fields = Readonly<Record<string, string | undefined>>;

/** @returns the fields of a form, with the values of a repeated field joined by blanks */
export function readFields(request: Request): Fields {
  return (request.formFields ??= parseForm(request));
}

function parseForm({ body }: Request): Fields {
  const text = Buffer.isBuffer(body) ? body.toString('latin1') : '';
  // Refused before parsing, which takes 50 ms for 99 KB.
  if (text.length > MAX_FORM_LENGTH || text.split('&', MAX_FIELDS + 1).length > MAX_FIELDS)
    throw new ProblemException(problems.malformedRequest);
  const form = new URLSearchParams(text);
  for (const value of form.values()) refuseHostileText(value, '');
  return Object.fromEntries([...new Set(form.keys())].map((name) => [name, form.getAll(name).join(' ')]));
}

/**
 * Reads the filters of a list, and redirects to their address with moments in UTC, which is the same for a reader in
 * another time zone.
 * @param moments the names of those that are moments
 * @returns undefined when it has redirected
 */
export function readFilters(request: Request, address: string, moments: readonly string[], sent: Fields) {
  const read = readMoments(moments, sent, getSession(request).timeZone);
  if (moments.every((name) => read[name] === (sent[name] || undefined))) return read;
  if (request.res) redirect(request.res, toAddress(address, read));
  return undefined;
}

/**
 * @param updatedAt undefined for a resource that is never changed, only ended
 * @throws {ConsoleRefusalError} when the resource was changed since its page was shown
 */
export function refuseOutdated(request: Request, updatedAt: string | undefined): void {
  if (readFields(request).seen === updatedAt) return;
  const advice = 'Another call changed it after you opened the page. Nothing was done: look at it again, and decide.';
  throw new ConsoleRefusalError(409, 'Changed meanwhile', advice);
}

export const listMoments = (fields: readonly FieldProps[]): string[] =>
  fields.filter(({ type }) => type === 'moment').map(({ name }) => name);

/** @returns the fields that differ from the values in the form, and the required ones; an emptied one is null */
export function readChanges(request: Request, fields: readonly FieldProps[]): Unvalidated {
  const typed = readFields(request);
  const { [CALENDAR_ZONE]: zone = '' } = typed;
  const timeZone = isTimeZone(zone) ? zone : getSession(request).timeZone;
  const sent = readMoments(listMoments(fields), typed, timeZone);
  const entries = fields.map((field) => {
    const { name, type, isList, isRequired, value = '' } = field;
    const given = sent[name] ?? '';
    const text = type === 'password' ? given : given.trim();
    const isSame = type === 'moment' ? isShownMoment(name, typed, value, timeZone) : isSameText(text, field);
    if (isSame && (text === '' || !isRequired)) return [name, undefined];
    if (text === '') return [name, null];
    if (isList) return [name, splitWords(text)];
    if (type === 'moment') return [name, resolveMoment(text)];
    return [name, type === 'number' ? Number(text) : text];
  });
  return Object.fromEntries(entries) as Unvalidated;
}

/** Whether a form sent what a field showed: check boxes may change the order of a list. */
function isSameText(text: string, { value = '', isList }: FieldProps): boolean {
  return isList ? splitWords(text).toSorted().join() === splitWords(value).toSorted().join() : text === value;
}
