import type { OpenAPIObject } from '@nestjs/swagger';
import { toProblemType, type Problem } from '../src/foundation/problems/problems.js';
import { wrapItem, wrapParagraph } from './wrapped.js';

/** Every route that reads a body may answer with these. */
const CODES_OF_BODIES = ['body_too_deep', 'payload_too_large', 'unsupported_media_type'];

interface Operation {
  readonly summary?: string;
  readonly security?: readonly Readonly<Record<string, unknown>>[];
  readonly responses: Readonly<Record<string, Response>>;
}
interface Response {
  readonly content?: Readonly<Record<string, { readonly examples?: Readonly<Record<string, unknown>> }>>;
}

interface RouteRow {
  /** `POST /internal/validate-app` */
  readonly name: string;
  readonly summary: string;
  /** Each door alone opens the route; empty when the route is open. */
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

/** The codes that every route may answer with. `/health` is left out, because its 503 is a report instead of a problem. */
function commonCodes(routes: readonly RouteRow[]): string[] {
  const [first, ...others] = routes.filter(({ name }) => name !== 'GET /health');
  return (first?.problemCodes ?? []).filter((code) => others.every(({ problemCodes }) => problemCodes.includes(code)));
}

export function listOfRoutes(routes: readonly RouteRow[]): string {
  const common = [...commonCodes(routes), ...CODES_OF_BODIES];
  const items = routes.map(({ name, summary, doors, successStatuses, problemCodes }) => {
    const codes = problemCodes.filter((code) => !common.includes(code));
    const answers = [successStatuses.join(', '), codeList(codes)].filter((part) => part !== '').join('; ');
    return wrapItem(`\`${name}\` (${doors.join(' or ') || 'open'}): ${endSentence(summary)} ${answers}`);
  });
  const ofAll = `Every route may also answer ${codeList(commonCodes(routes))}.`;
  const ofBodies = `Routes that read a body may also answer ${codeList(CODES_OF_BODIES)}.`;
  return `${items.join('\n')}\n\n${wrapParagraph(`${ofAll} ${ofBodies}`)}`;
}

export function listOfProblems(problems: Readonly<Record<string, Problem>>): string {
  const items = Object.values(problems).map((problem) => {
    const detail = problem.detail.replaceAll('<', '\\<');
    return wrapItem(`${problem.status} \`${problem.code}\` (\`${toProblemType(problem)}\`): ${detail}`);
  });
  return items.join('\n');
}

function endSentence(text: string): string {
  return /[.?]$/.test(text) ? text : `${text}.`;
}

/** Both headers of an app are one door, although OpenAPI has a scheme for each. An empty requirement means an open route. */
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
