// The report of a plan, as `init` and `apply` print it.
import { formatPair } from '../credential-state.js';
import { formatTable } from '../tables.js';
import type { PlanReport } from './plan.js';

/** @param compared what the command compares with the map */
export function formatReport(report: PlanReport, compared = 'Files, keys and schema'): string {
  const { dry_run: isPlan, migrations, pairs, files, strays, subscriptions, warnings } = report;
  const changed = files.filter((file) => file.changed);
  const isUnchanged =
    changed.length === 0 &&
    !pairs.some(changesRights) &&
    migrations.length + subscriptions.length === 0 &&
    !strays.some(({ revoked }) => revoked);
  const parts = [formatTable(['caller', 'target', 'action', 'app_id'], pairs)];
  parts.push(...listRightsParts(report));
  if (pairs.some(({ action }) => action === 'unknown'))
    parts.push(
      'Keys cannot be compared before the schema is up to date. To see their actions, run migrate, then this command again.',
    );
  const lost = pairs.filter(({ action }) => action === 'lost').map(formatPair);
  if (lost.length > 0)
    parts.push(
      `Keys that were not found here, and cannot be read again: ${lost.join(', ')}. They stay; --rotate-lost makes new ones.`,
    );
  const old = pairs.filter(({ action }) => action === 'old').map(formatPair);
  if (old.length > 0)
    parts.push(
      `Keys that were rotated, and whose old key was found here: ${old.join(', ')}. Install the new one by hand; --rotate makes another.`,
    );
  if (migrations.length > 0) parts.push(`Migrations ${isPlan ? 'to apply' : 'applied'}: ${migrations.join(', ')}`);
  if (changed.length > 0) parts.push([`Files ${isPlan ? 'to write' : 'written'}:`, ...changed.map(toLine)].join('\n'));
  if (strays.length > 0)
    parts.push(`${createHeading(strays, isPlan)}\n${formatTable(['caller', 'target', 'app_id'], strays)}`);
  if (warnings.length > 0) parts.push(warnings.map((warning) => `Warning: ${warning}`).join('\n'));
  if (isUnchanged)
    parts.push(`${lost.length + old.length === 0 ? `${compared} match the map. ` : ''}Nothing was changed.`);
  else if (isPlan) parts.push('This is the plan. Nothing was changed.');
  else if (isFirstRun(report)) parts.push('Done. Start the services, each with its file; then run doctor.');
  else if (changed.length > 0) parts.push('Done. Restart the services whose files were written.');
  else parts.push('Done.');
  return parts.join('\n\n');
}

/** Whether the map changes what a live credential may do. */
export function changesRights({ action, scopes, for_users }: PlanReport['pairs'][number]): boolean {
  return action !== 'issue' && (scopes !== undefined || for_users !== undefined);
}

function listRightsParts({ dry_run: isPlan, pairs, subscriptions }: PlanReport): string[] {
  const scoped = pairs.filter(({ action, scopes }) => action !== 'issue' && scopes !== undefined);
  const users = pairs.filter(({ action, for_users }) => action !== 'issue' && for_users !== undefined);
  const kept = pairs.filter((pair) => pair.kept_scopes !== undefined);
  const parts: readonly (readonly [heading: string, lines: readonly string[]])[] = [
    [`Scopes ${isPlan ? 'to change' : 'changed'}:`, scoped.map(toScopesLine)],
    ['Scopes that stay, because the map names none:', kept.map(toKeptLine)],
    [`Subscriptions ${isPlan ? 'to set' : 'set'}:`, subscriptions.map(toSubscriptionLine)],
    [`For users ${isPlan ? 'to change' : 'changed'}:`, users.map(toUsersLine)],
  ];
  return parts.flatMap(([heading, lines]) => (lines.length === 0 ? [] : [[heading, ...lines].join('\n')]));
}

/** On the first run no service can have used these files, so their keys are first keys and need no warning. */
function isFirstRun({ pairs, files }: PlanReport): boolean {
  // The first file is that of auth.
  return files[0]?.variables.includes('SECRET_KEY') === true && pairs.every(({ action }) => action === 'issue');
}

function toScopesLine(pair: PlanReport['pairs'][number]): string {
  return `  ${formatPair(pair)}: ${pair.scopes?.join(', ') ?? 'all'}`;
}

function toKeptLine(pair: PlanReport['pairs'][number]): string {
  return `  ${formatPair(pair)}: ${pair.kept_scopes?.join(', ')}`;
}

function toSubscriptionLine({ service, types }: PlanReport['subscriptions'][number]): string {
  return `  ${service}: ${types.join(', ')}`;
}

function toUsersLine(pair: PlanReport['pairs'][number]): string {
  return `  ${formatPair(pair)}: ${pair.for_users ? 'yes' : 'no'}`;
}

function toLine({ file, variables }: PlanReport['files'][number]): string {
  return `  ${file}: ${variables.join(', ') || 'mode 0600'}`;
}

function createHeading(strays: PlanReport['strays'], isPlan: boolean): string {
  const isRevoked = strays.some(({ revoked }) => revoked);
  const outcome = isPlan ? 'would be revoked' : 'revoked';
  return `Credentials of pairs that are not in the map (${isRevoked ? outcome : 'still valid; --prune revokes them'}):`;
}
