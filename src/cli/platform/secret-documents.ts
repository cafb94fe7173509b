// The variables of services as Kubernetes Secrets or JSON documents, in a folder or on standard output. The same plan
// gives the same bytes.
import { isUtf8 } from 'node:buffer';
import { join } from 'node:path';
import { parseAllDocuments, stringify } from 'yaml';
import * as z from 'zod';
import { isOpenToOthers, readRegular, rehearseReplacement, replaceFile } from '../../foundation/common/durable-file.js';
import { FileChangedError } from '../../foundation/config/env-file.js';
import { describeCause } from '../failures.js';
import { CommandFailedError, refuseNullOutput, writeKeys } from '../terminal.js';
import { readEnvFile, readOrExplain, type ServiceFile } from './environment-files.js';
import { toVariablePrefix } from '../../foundation/common/names.js';
import type { MappedService, PlatformMap } from './platform-map.js';

type Values = Readonly<Record<string, string>>;
/** A document as it was read: labels and values of others stay in it. */
interface Stored {
  readonly name: string;
  readonly values: Values;
  /** Values that are not text, in base64. */
  readonly binary?: Values;
  readonly metadata?: Partial<z.output<typeof manifest>['metadata']>;
}

interface Format {
  readonly extension: string;
  /** @returns the name of the service's document */
  readonly toName: (service: string) => string;
  /** @throws when the text is not in this format; the message does not quote the text, which holds keys */
  readonly parse: (text: string) => readonly Stored[];
  readonly render: (name: string, values: Values, stored: Stored | undefined, namespace: string | undefined) => string;
}

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

const kubernetes: Format = {
  extension: 'yaml',
  // Names are unique, because the map refuses two services with the same prefix.
  toName: (service) => `${toVariablePrefix(service).toLowerCase().replaceAll('_', '-')}-env`,
  parse: (text) => {
    const documents = [parseAllDocuments(text)].flat().filter(({ contents }) => contents !== null);
    if (!documents.every(({ errors }) => errors.length === 0)) throw new Error(NO_SECRETS);
    return documents.flatMap((each) => readAs(manifests, each.toJS(), NO_SECRETS)).map(toStored);
  },
  render: (name, values, stored, namespace = stored?.metadata?.namespace) => {
    const { labels, annotations } = stored?.metadata ?? {};
    const data = { ...stored?.binary, ...mapValues(values, (value) => Buffer.from(value).toString('base64')) };
    const kept = Object.entries(annotations ?? {}).filter(([annotation]) => annotation !== LAST_APPLIED);
    const own = { 'app.kubernetes.io/managed-by': 'platform-auth', 'app.kubernetes.io/part-of': 'platform' };
    const secret = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: {
        name,
        ...(namespace !== undefined && { namespace }),
        labels: { ...own, ...labels },
        ...(kept.length > 0 && { annotations: Object.fromEntries(kept) }),
      },
      type: 'Opaque',
      data: sortByName(data),
    };
    // kubectl reads YAML 1.1, where `yes` and `on` without quotes are booleans.
    return `---\n${stringify(secret, { lineWidth: 0, compat: 'yaml-1.1' })}`;
  },
};

const NO_SECRETS = 'it does not hold Kubernetes Secrets';
const NO_LINES = 'it does not hold one document in each line';
const names = z.record(z.string(), z.string());
const manifest = z.object({
  kind: z.literal('Secret'),
  metadata: z.object({
    name: z.string(),
    namespace: z.string().optional(),
    labels: names.optional(),
    annotations: names.optional(),
  }),
  data: names.nullish(),
  stringData: names.nullish(),
});
/** A YAML document holds one Secret or a list of them. */
const manifests = z.union([
  manifest.transform((secret) => [secret]),
  z
    .object({ kind: z.enum(['List', 'SecretList']), items: z.array(manifest).default([]) })
    .transform(({ items }) => items),
]);
const line = z.object({ service: z.string(), variables: names });

/** Discards the errors of the schema, which may quote a secret. */
function readAs<Output>(schema: z.ZodType<Output>, value: unknown, otherwise: string): Output {
  const { data, success } = schema.safeParse(value);
  if (!success) throw new Error(otherwise);
  return data;
}

function toStored({ metadata, data, stringData }: z.output<typeof manifest>): Stored {
  const entries = Object.entries(data ?? {});
  const isText = ([, value]: [string, string]): boolean => isUtf8(Buffer.from(value, 'base64'));
  const texts = entries.filter(isText).map(([name, value]) => [name, Buffer.from(value, 'base64').toString()] as const);
  const binary = Object.fromEntries(entries.filter((entry) => !isText(entry)));
  return { name: metadata.name, metadata, values: { ...Object.fromEntries(texts), ...stringData }, binary };
}

/** One object a line, so that a consumer can read a stream of several line by line. */
const json: Format = {
  extension: 'json',
  toName: (service) => service,
  parse: (text) => {
    const lines = text.split('\n').filter((each) => each.trim() !== '');
    const documents = lines.map((each) => readAs(line, JSON.parse(each), NO_LINES));
    return documents.map(({ service, variables }) => ({ name: service, values: variables }));
  },
  render: (service, variables) => `${JSON.stringify({ service, variables })}\n`,
};

function mapValues(values: Values, change: (value: string) => string): Values {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value)]));
}

function sortByName(values: Values): Values {
  return Object.fromEntries(Object.entries(values).sort(([left], [right]) => (left < right ? -1 : 1)));
}

class SecretDocument implements ServiceFile {
  /** Always true, so that the plan writes it once with its keys, and not before they are issued. */
  readonly exists = true;
  private readonly values: Map<string, string>;
  private readonly changed = new Set<string>();

  constructor(
    readonly path: string,
    private readonly render: (values: Values) => string,
    private readonly stored: Stored | undefined,
    /** Undefined for standard output. */
    private readonly file?: { readonly bytes: Buffer | undefined; readonly isOpenToOthers: boolean },
  ) {
    this.values = new Map(Object.entries(stored?.values ?? {}));
  }

  get changes(): string[] {
    return [...this.changed];
  }

  get needsWriting(): boolean {
    return this.changed.size > 0 || this.file?.isOpenToOthers === true;
  }

  get(name: string): string | undefined {
    return this.values.get(name) || undefined;
  }

  set(name: string, value: string): void {
    if (this.get(name) === value) return;
    this.values.set(name, value);
    this.changed.add(name);
  }

  remove(name: string): void {
    if (this.values.delete(name)) this.changed.add(name);
  }

  get isRepeated(): boolean {
    return this.isStream && this.stored !== undefined;
  }

  get isStream(): boolean {
    return this.file === undefined;
  }

  async write(): Promise<void> {
    const { file, path } = this;
    if (!file) return writeKeys(this.text);
    replaceFile(path, (found) => {
      if (file.bytes?.toString() !== found?.bytes.toString()) throw new FileChangedError(path);
      return Buffer.from(this.text);
    });
  }

  rehearseWrite(): void {
    if (this.file) rehearseReplacement(this.path, () => Buffer.from(this.text));
    else refuseNullOutput();
  }

  private get text(): string {
    return this.render(sortByName(Object.fromEntries(this.values)));
  }
}

export interface Documents {
  readonly format: 'env' | 'kubernetes' | 'json';
  /** Undefined for standard output. */
  readonly folder: string | undefined;
  /** The documents in use, in the same format, when the new ones go to standard output. */
  readonly current: string | undefined;
}

/** @returns the document of each service that calls another one; the others get no keys */
export function openDocuments(map: PlatformMap, documents: Documents): ReadonlyMap<string, ServiceFile> {
  const { format, folder, current } = documents;
  const callers = map.services.filter(({ calls }) => calls.length > 0);
  if (format === 'env') return new Map(callers.map(({ name }) => [name, readEnvFile(folder ?? '.', name)]));
  const chosen = { kubernetes, json }[format];
  const stored = current === undefined ? undefined : parse(chosen, current, '--current');
  return new Map(callers.map((service) => [service.name, openDocument(service, chosen, folder, stored)]));
}

function openDocument(
  { name: service, namespace }: MappedService,
  format: Format,
  folder: string | undefined,
  current: readonly Stored[] = [],
) {
  const name = format.toName(service);
  const path = folder === undefined ? name : join(folder, `${service}.${format.extension}`);
  const file = folder === undefined ? undefined : readOrExplain(path, readRegular);
  const stored = findStored(file ? parse(format, file.bytes.toString(), path) : current, name, namespace);
  const render = (values: Values): string => format.render(name, values, stored, namespace);
  const inFolder = { bytes: file?.bytes, isOpenToOthers: file !== undefined && isOpenToOthers(file.stats) };
  return new SecretDocument(path, render, stored, folder === undefined ? undefined : inFolder);
}

/** Kubernetes allows Secrets of the same name in two namespaces. */
function findStored(all: readonly Stored[], name: string, namespace: string | undefined): Stored | undefined {
  const isMeant = ({ metadata }: Stored): boolean =>
    namespace === undefined || metadata?.namespace === undefined || metadata.namespace === namespace;
  const [found, other] = all.filter((stored) => stored.name === name).filter(isMeant);
  if (!other) return found;
  const places = [found, other].map((stored) => stored?.metadata?.namespace ?? 'one without a namespace').join(', ');
  throw new CommandFailedError(
    `There are two documents ${name}: ${places}. Give the service its namespace in the map, or one document. Nothing was changed.`,
    'file_unusable',
  );
}

function parse({ parse: parseText }: Format, text: string, where: string): readonly Stored[] {
  try {
    return parseText(text);
  } catch (error) {
    const cause = error instanceof SyntaxError ? 'it is not valid JSON' : describeCause(error);
    throw new CommandFailedError(`${where} cannot be used: ${cause}. Nothing was changed.`, 'file_unusable');
  }
}
