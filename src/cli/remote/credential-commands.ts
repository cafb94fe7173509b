import { Option, type Command } from 'commander';
import { EXAMPLES } from '../../common/examples.js';
import { DEFAULT_OVERLAP_HOURS, MAX_OVERLAP_HOURS } from '../../config/limits.js';
import { addYes, createConfirm } from '../confirm.js';
import { Names, type Kind } from './names.js';
import { createClient, createNumberParser, readOutput, describeRemote, encodeSegment } from './remote-command.js';
import { withAdvice } from '../service-call.js';
import { formatFields, replaceControlCharacters, type Cell } from '../table.js';
import { print } from '../terminal.js';

/** A kind of credential: what the commands for nodes and for apps differ by. */
export interface CredentialKind {
  /** The group of commands. */
  readonly group: string;
  readonly kind: Kind;
  /** As at the start of a sentence. */
  readonly name: string;
  readonly idField: string;
  readonly path: string;
}

export function addShow(to: Command, { group, name, idField, path }: CredentialKind): void {
  describeRemote(
    to.command(`show <${idField}>`),
    `Show one ${name.toLowerCase()}.`,
    `${group} show ${EXAMPLES.id}`,
  ).action(async (id: string, _options, command: Command) => {
    const found = await createClient(command).get<Record<string, Cell>>(`${path}/${encodeSegment(id)}`);
    print(readOutput(command), found, formatFields);
  });
}

export function addRevoke(to: Command, { group, kind, name, idField, path }: CredentialKind): void {
  const description = `Revoke the ${name.toLowerCase()} permanently.`;
  describeRemote(addYes(to.command(`revoke <${idField}>`)), description, `${group} revoke ${EXAMPLES.id}`).action(
    async (id: string, _options, command: Command) => {
      const client = createClient(command);
      await createConfirm(command)(async () => {
        const names = new Names(client);
        await names.learn([{ kind, id }]);
        return `This revokes the ${name.toLowerCase()} ${replaceControlCharacters(names.get(id))} permanently.`;
      });
      await client.delete(`${path}/${encodeSegment(id)}`);
      print(readOutput(command), { [idField]: id, revoked: true }, () => `${name} ${id} is revoked.`);
    },
  );
}

/** @param condition under which the option is allowed */
export function createOverlapOption(condition = ''): Option {
  const what = `how long the old key is valid if the new one is not used (default: ${DEFAULT_OVERLAP_HOURS})`;
  return new Option('--overlap-hours <hours>', condition + what).argParser(createNumberParser(0, MAX_OVERLAP_HOURS));
}

/** Says for how long the old key is valid after a rotation. @param until the end of the overlap; null: it ended at once */
export function describeOldKey(until: string | null): string {
  return until === null
    ? 'The old one is refused from now on.'
    : `The old one is valid until the new one is first used, and until ${until} at the latest.`;
}

/** @returns the credential with its new key, which cannot be read again */
export async function rotate<View>(
  command: Command,
  { path }: Pick<CredentialKind, 'path'>,
  id: string,
  overlapHours: number | undefined,
): Promise<View> {
  const body = overlapHours === undefined ? undefined : { overlap_hours: overlapHours };
  return withAdvice(
    createClient(command).post<View>(`${path}/${encodeSegment(id)}/rotate`, body),
    'Run this again: a new key made by the lost call is not shown. The old one is valid until the overlap ends, if there is one.',
  );
}
