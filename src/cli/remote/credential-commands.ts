import { Option, type Command } from 'commander';
import { MAX_OVERLAP_HOURS } from '../../config/limits.js';
import { clientOf, numberFrom, outputOf, remote, segment } from './remote-command.js';
import { orAdvise } from '../service-call.js';
import { fields, print, type Cell } from '../terminal.js';

/** A kind of credential that the admin door looks after: what its commands differ by. */
export interface CredentialKind {
  /** Of commands. */
  readonly group: string;
  /** As a sentence starts with it. */
  readonly name: string;
  readonly idField: string;
  readonly path: string;
}

export const EXAMPLE_ID = '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11';

export function addShow(to: Command, { group, name, idField, path }: CredentialKind): void {
  remote(to.command(`show <${idField}>`), `Show one ${name.toLowerCase()}.`, `${group} show ${EXAMPLE_ID}`).action(
    async (id: string, _options, command: Command) => {
      const found = await clientOf(command).get<Record<string, Cell>>(`${path}/${segment(id)}`);
      print(outputOf(command), found, fields);
    },
  );
}

export function addRevoke(to: Command, { group, name, idField, path }: CredentialKind): void {
  const description = `Refuse the ${name.toLowerCase()} from now on, for good.`;
  remote(to.command(`revoke <${idField}>`), description, `${group} revoke ${EXAMPLE_ID}`).action(
    async (id: string, _options, command: Command) => {
      await clientOf(command).delete(`${path}/${segment(id)}`);
      print(outputOf(command), { [idField]: id, revoked: true }, () => `${name} ${id} is revoked.`);
    },
  );
}

/** @param condition under which it can be given */
export function overlapOption(condition = ''): Option {
  const what = 'how long the old key is good if the new one is not used (default: KEY_OVERLAP_HOURS of the service)';
  return new Option('--overlap-hours <hours>', condition + what).argParser(numberFrom(0, MAX_OVERLAP_HOURS));
}

/** @returns the credential with its new key, which is seen this once */
export async function rotate<View>(
  command: Command,
  { path }: CredentialKind,
  id: string,
  overlapHours: number | undefined,
): Promise<View> {
  const body = overlapHours === undefined ? undefined : { overlap_hours: overlapHours };
  return orAdvise(
    clientOf(command).post<View>(`${path}/${segment(id)}/rotate`, body),
    'Run this again for a key that you see. Until then the old one is good, unless the overlap ends or is 0 hours.',
  );
}
