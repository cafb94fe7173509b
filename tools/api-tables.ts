import type { OpenAPIObject } from '@nestjs/swagger';
import { toProblemType, type Problem } from '../src/foundation/problems/problems.js';

interface Operation {
  readonly summary?: string;
  readonly security?: readonly Readonly<Record<string, unknown>>[];
  readonly responses: Readonly<Record<string, Response>>;
}
interface Response {
  readonly content?: Readonly<Record<string, { readonly examples?: Readonly<Record<string, unknown>> }>>;
}

/** One route of the OpenAPI document, as docs/api.md shows it. */
export interface RouteRow {
  /** `POST /internal/validate-app` */
  readonly name: string;
  readonly summary: string;
  /** Alternatives; empty when the route is open. */
  readonly doors: readonly string[];
  readonly successStatuses: readonly string[];
  readonly problemCodes: readonly string[];
}

export function listRoutes(document: OpenAPIObject): RouteRow[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item as Record<string, Operation>).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      summary: operation.summary ?? '',
      doors: [...new Set((operation.security ?? []).map(toDoors))],
      successStatuses: Object.keys(operation.responses).filter((status) => Number(status) < 400),
      problemCodes: Object.values(operation.responses).flatMap(toProblemCodes),
    })),
  );
}

/** The codes that every route may answer with. The 503 of `/health` is its report instead. */
function commonCodes(routes: readonly RouteRow[]): string[] {
  const [first, ...others] = routes.filter(({ name }) => name !== 'GET /health');
  return (first?.problemCodes ?? []).filter((code) => others.every(({ problemCodes }) => problemCodes.includes(code)));
}

export function routeTable(routes: readonly RouteRow[]): string {
  const common = commonCodes(routes);
  const rows = routes.map(({ name, summary, doors, successStatuses, problemCodes }) => [
    `\`${name}\``,
    doors.join(' or ') || 'open',
    summary,
    successStatuses.join(', '),
    codeList(problemCodes.filter((code) => !common.includes(code))),
  ]);
  const table = markdownTable(['Route', 'Door', 'Purpose', 'Success', 'Errors of its own'], rows);
  return `${table}\n\nEvery route may also answer ${codeList(common)}.`;
}

export function problemTable(problems: Readonly<Record<string, Problem>>): string {
  const rows = Object.values(problems).map((problem) => [
    `\`${toProblemType(problem)}\``,
    String(problem.status),
    `\`${problem.code}\``,
    problem.detail.replaceAll('<', '\\<'),
  ]);
  return markdownTable(['`type`', 'Status', '`code`', 'Meaning'], rows);
}

/** One requirement may need several schemes, the two headers of an app are one door, and an empty one needs none. */
function toDoors(requirement: Readonly<Record<string, unknown>>): string {
  const doors = Object.keys(requirement).map((scheme) => scheme.replace(/^app_(id|key|basic)$/, 'app'));
  return [...new Set(doors)].join(' and ') || 'none';
}

function toProblemCodes({ content }: Response): string[] {
  return Object.keys(content?.['application/problem+json']?.examples ?? {});
}

function codeList(codes: readonly string[]): string {
  return codes.map((code) => `\`${code}\``).join(', ');
}

function markdownTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [header, header.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`).join('\n');
}
