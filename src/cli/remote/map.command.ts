// `platform-auth map`: which service calls which, when it last did, and what needs attention. Drawn from the live app
// credentials and the targets of nodes, as text, Mermaid, Graphviz or SVG.
import { Option, type Command } from 'commander';
import * as z from 'zod';
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../../foundation/config/limits.js';
import { isExpiring, isLive, isUnused } from '../credential-state.js';
import { formatTable } from '../tables.js';
import { addRemote } from './remote-command.js';
import type { AppCredentialResponse } from '../../api/admin/app-credentials.admin.controller.js';

type Format = keyof typeof DRAWINGS;
const nodeTargets = z.object({ items: z.array(z.object({ targets: z.array(z.string()), live: z.number() })) });
type NodesOfTargets = z.infer<typeof nodeTargets>['items'][number];
type CallState = 'ok' | 'unused' | 'expiring';

/** A live credential, with which one service may call another. */
type Call = Pick<AppCredentialResponse, 'caller' | 'target' | 'last_used_at' | 'expires_at' | 'for_users'> & {
  readonly label: string;
  readonly state: CallState;
};

export function addMapCommand(root: Command): void {
  const states = `last used, not used for ${UNUSED_DAYS} days, expiring within ${EXPIRY_NOTICE_DAYS} days`;
  addRemote(root, 'map', `Draw which services call which: ${states}.`, '--format svg > platform.svg')
    .addOption(new Option('--format <format>', 'of the drawing').choices(Object.keys(DRAWINGS)).default('text'))
    .answer<[{ format: Format }], { calls: Call[]; nodes: NodesOfTargets[] }>(
      async (client) => ({
        calls: toCalls(await client.list<AppCredentialResponse>('/app-credentials', { live: 'true' })),
        nodes: client.requireShape(nodeTargets, await client.get('/nodes/targets')).items,
      }),
      ({ calls, nodes }, { format }) => DRAWINGS[format]([...calls, ...nodes.flatMap(toCallsOfNodes)]),
    );
}

/** Draws one box for all nodes with the same targets. */
function toCallsOfNodes({ targets, live }: NodesOfTargets, index: number): Call[] {
  const caller = `${live} ${live === 1 ? 'node' : 'nodes'} (set ${index + 1})`;
  const none = { last_used_at: null, expires_at: null, for_users: false };
  const call = { caller, label: 'accepted', state: 'ok', ...none } as const;
  return targets.map((target) => ({ ...call, target }));
}

export function toCalls(credentials: readonly AppCredentialResponse[], now = new Date()): Call[] {
  const live = credentials.filter((credential) => isLive(credential, now));
  const toKey = ({ caller, target }: Pick<Call, 'caller' | 'target'>): string => `${caller} ${target}`;
  return live.map((credential) => toCall(credential, now)).sort((left, right) => (toKey(left) < toKey(right) ? -1 : 1));
}

function toCall(credential: AppCredentialResponse, now: Date): Call {
  const { caller, target, last_used_at, expires_at, for_users } = credential;
  const lastUse = last_used_at === null ? 'never used' : `last used ${last_used_at.slice(0, 10)}`;
  const used = for_users ? `for users, ${lastUse}` : lastUse;
  const call = { caller, target, last_used_at, expires_at, for_users };
  if (expires_at !== null && isExpiring(credential, now))
    return { ...call, state: 'expiring', label: `${used}, expires ${expires_at.slice(0, 10)}` };
  return { ...call, state: isUnused(credential, now) ? 'unused' : 'ok', label: used };
}

const ROW = 56;
const BOX = { width: 200, height: 36 };
const WIDTH = 860;
const TARGET_X = WIDTH - BOX.width - 20;
/** A pair for users is wider in every drawing, whatever its colour and dashes are. */
const [LINE_WIDTH, FOR_USERS_WIDTH] = [2, 5];
const COLOURS: Readonly<Record<CallState, string>> = { ok: '#2f6f4f', unused: '#8a8a8a', expiring: '#b8461b' };

export const DRAWINGS: Readonly<Record<'text' | 'mermaid' | 'dot' | 'svg', (calls: readonly Call[]) => string>> = {
  text: (calls) => {
    const colour = (name: string, value: unknown) =>
      name !== 'state' || value === 'ok' ? undefined : value === 'expiring' ? ('red' as const) : ('yellow' as const);
    const forUsers = calls.some(({ for_users }) => for_users) ? (['for_users'] as const) : [];
    const columns = ['caller', 'target', 'state', ...forUsers, 'last_used_at', 'expires_at'] as const;
    return formatTable(columns, calls, { drop: ['expires_at', 'last_used_at', 'for_users'], colour });
  },
  mermaid: (calls) => {
    const ids = numberServices(calls);
    const lines = calls.map(
      ({ caller, target, label, state }) =>
        `  ${ids.get(caller)} ${state === 'unused' ? '-.->' : '-->'}|"${label}"| ${ids.get(target)}`,
    );
    const styles = calls.flatMap(({ state, for_users }, index) => {
      const stroke = state === 'ok' ? [] : [`stroke:${COLOURS[state]}`];
      const style = for_users ? [...stroke, `stroke-width:${FOR_USERS_WIDTH}px`] : stroke;
      return style.length === 0 ? [] : [`  linkStyle ${index} ${style.join(',')}`];
    });
    const nodes = [...ids].map(([name, id]) => `  ${id}["${name}"]`);
    return ['flowchart LR', ...nodes, ...lines, ...styles].join('\n');
  },
  dot: (calls) => {
    const edges = calls.map(({ caller, target, label, state, for_users }) => {
      const style = (state === 'unused' ? ', style=dashed' : '') + (for_users ? `, penwidth=${FOR_USERS_WIDTH}` : '');
      return `  "${caller}" -> "${target}" [label="${label}", color="${COLOURS[state]}"${style}];`;
    });
    return ['digraph platform {', '  rankdir=LR;', '  node [shape=box];', ...edges, '}'].join('\n');
  },
  svg: drawSvg,
};

/** Callers are on the left, targets on the right; a service that is both is drawn on both sides. */
function drawSvg(calls: readonly Call[]): string {
  const callers = [...new Set(calls.map(({ caller }) => caller))];
  const targets = [...new Set(calls.map(({ target }) => target))];
  const height = ROW * Math.max(callers.length, targets.length, 1) + 20;
  const toY = (names: readonly string[], name: string): number =>
    20 + ((names.indexOf(name) + 0.5) * (height - 20)) / names.length;
  const lines = calls.map(({ caller, target, label, state, for_users }) => {
    const [from, to, end] = [toY(callers, caller), toY(targets, target), 20 + BOX.width];
    const dash = state === 'unused' ? ' stroke-dasharray="6 4"' : '';
    return (
      `<line x1="${end}" y1="${from}" x2="${TARGET_X - 8}" y2="${to}" stroke="${COLOURS[state]}"${dash} stroke-width="${for_users ? FOR_USERS_WIDTH : LINE_WIDTH}" marker-end="url(#arrow)">` +
      `<title>${caller} → ${target}: ${label}</title></line>\n` +
      `<text x="${end + (TARGET_X - end) * 0.3}" y="${from + (to - from) * 0.3 - 5}" fill="${COLOURS[state]}" font-size="11" text-anchor="middle">${label}</text>`
    );
  });
  const drawBox = (name: string, x: number, y: number): string =>
    `<rect x="${x}" y="${y - BOX.height / 2}" width="${BOX.width}" height="${BOX.height}" rx="6" fill="#f4f4f1" stroke="#444"/>\n` +
    `<text x="${x + BOX.width / 2}" y="${y + 5}" text-anchor="middle" fill="#222">${name}</text>`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="14">`,
    '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerUnits="userSpaceOnUse" markerWidth="14" markerHeight="14" orient="auto"><path d="M0 0L10 5L0 10z" fill="#444"/></marker></defs>',
    '<rect width="100%" height="100%" fill="white"/>',
    ...lines,
    ...callers.map((name) => drawBox(name, 20, toY(callers, name))),
    ...targets.map((name) => drawBox(name, TARGET_X, toY(targets, name))),
    '</svg>',
  ].join('\n');
}

/** Mermaid does not allow all characters of a service's name in an id. */
function numberServices(calls: readonly Call[]): Map<string, string> {
  const names = new Set(calls.flatMap(({ caller, target }) => [caller, target]));
  return new Map([...names].map((name, index) => [name, `s${index}`]));
}
