/** The parts of the console's pages. The renderer escapes text, and nothing here runs in a browser. */
import type { Response } from 'express';
import type { ComponentChildren, VNode } from 'preact';
import { useContext } from 'preact/hooks';
import { renderToString } from 'preact-render-to-string';
import { createRandomId } from '../foundation/common/ids.js';
import { createFormToken, type ConsoleSession } from './console-sessions.js';
import { TimeZone, toLocal, toWordName, UTC } from './moments.js';
import { Breadcrumbs, Navigation, type OfferedPage, type PageSession } from './navigation.js';

/**
 * Allows no inline script, no inline style, and nothing of another origin (ASVS 3.4.3). The style sheet has its icons
 * as data URLs.
 */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

export function setPageHeaders(response: Response): void {
  response.setHeader('Content-Security-Policy', CONTENT_SECURITY_POLICY);
  // With no-referrer, browsers send `Origin: null` with a form.
  response.setHeader('Referrer-Policy', 'same-origin');
  response.removeHeader('Location');
}

export function sendPage(response: Response, page: VNode, status = 200): void {
  setPageHeaders(response);
  response
    .status(status)
    .type('html')
    .send(`<!doctype html>${renderToString(page)}`);
}

interface PageProps {
  readonly title: string;
  /** Undefined before the login. */
  readonly session?: PageSession | undefined;
  /** The address of the page in the navigation. */
  readonly at?: string;
  /** Any one of these scopes opens the page. */
  readonly needs?: readonly string[];
  /** Whether console.js refreshes the page, which it does while the operator does not type into it. */
  readonly isLive?: boolean;
  /** The pages above this one, below the one in the navigation. */
  readonly above?: readonly OfferedPage[] | undefined;
  /** CONSOLE_LABEL, where there is no session. */
  readonly label?: string | undefined;
  readonly children: ComponentChildren;
}

/** A shield with a keyhole. */
const MARK = (
  <svg class="mark" viewBox="0 0 16 16" width="20" height="20" aria-hidden="true">
    <path
      fill="currentColor"
      fill-rule="evenodd"
      d="M8 0 1.5 2.5v5c0 4 2.6 7 6.5 8.5 3.9-1.5 6.5-4.5 6.5-8.5v-5zM8 4a2 2 0 0 0-1 3.7V11h2V7.7A2 2 0 0 0 8 4z"
    />
  </svg>
);
const ICON =
  'data:image/svg+xml,' +
  "%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%23017fc0' " +
  "d='M8 0 1.5 2.5v5c0 4 2.6 7 6.5 8.5 3.9-1.5 6.5-4.5 6.5-8.5v-5z'/%3E%3C/svg%3E";

function Brand({ label }: { label: string | undefined }): VNode {
  return (
    <p class="brand">
      <a href="/console">{MARK} platform-auth</a>
      {label !== undefined && (
        <span class={label.toLowerCase() === 'production' ? 'label production' : 'label'}>{label}</span>
      )}
    </p>
  );
}

function SearchField({ session }: { session: PageSession }): VNode {
  return (
    <Form session={session} action="/console/search" submit="Search" look="outline secondary" layout="search">
      <input
        type="search"
        name="query"
        required
        maxLength={512}
        autocomplete="off"
        aria-label="Search"
        placeholder="Id, name, e-mail, request or key"
        title="A pasted key is identified by its digest; what you type stands in no address and no log."
      />
    </Form>
  );
}

function Head({ title, label }: { title: string; label: string | undefined }): VNode {
  return (
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>{`${title} · platform-auth${label === undefined ? '' : ` (${label})`}`}</title>
      <link rel="icon" href={ICON} />
      <link rel="stylesheet" href="/console/static/pico.min.css" />
      <link rel="stylesheet" href="/console/static/console.css" />
      <script type="module" src="/console/static/console.js" />
    </head>
  );
}

export function Page({ title, session, at, needs = [], isLive, above, label: ofLogin, children }: PageProps): VNode {
  const label = session?.label ?? ofLogin;
  const zone = session?.timeZone ?? UTC;
  return (
    <TimeZone.Provider value={zone}>
      <html lang="en">
        <Head title={title} label={label} />
        <body>
          <a class="skip" href="#main">
            Skip to the content
          </a>
          <header class="container-fluid">
            <Brand label={label} />
            {session && (
              <>
                <Navigation pages={session.pages} at={at} />
                <SearchField session={session} />
                <Form session={session} action="/console/logout" submit="Log out" look="outline secondary" />
              </>
            )}
          </header>
          <main id="main" class="container-fluid" data-live={isLive}>
            {session && <Breadcrumbs pages={session.pages} at={at} above={above} title={title} />}
            <h1>{title}</h1>
            {children}
          </main>
          {session && (
            <footer class="container-fluid">
              You act as <b>{session.principal.operator?.name ?? 'the root key'}</b>
              {needs.length > 0 && `. This page needs the scope ${needs.join(' or ')}`}. Times are in{' '}
              <a href="/console/time-zone">{zone.replaceAll('_', ' ')}</a>.
            </footer>
          )}
        </body>
      </html>
    </TimeZone.Provider>
  );
}

interface FormProps {
  readonly session: Pick<ConsoleSession, 'token'>;
  readonly action: string;
  readonly submit: string;
  readonly look?: string;
  /** The class of the form. */
  readonly layout?: string;
  /** When the resource of the form was last changed. */
  readonly seen?: string;
  readonly fields?: readonly FieldProps[];
  readonly children?: ComponentChildren;
}

/** A form that changes something: it proves that a page of this session made it, and can be sent once. */
export function Form({ session, action, submit, look, layout, seen, fields = [], children }: FormProps): VNode {
  return (
    <form method="post" action={action} class={layout} data-once>
      <input type="hidden" name="form" value={createFormToken(session, createRandomId(), action)} />
      {seen !== undefined && <input type="hidden" name="seen" value={seen} />}
      {children}
      {fields.map((field) => (
        <Field {...field} />
      ))}
      <button type="submit" class={look}>
        {submit}
      </button>
    </form>
  );
}

export interface FieldProps {
  readonly label: string;
  readonly name: string;
  /** A list has blanks between its words. */
  readonly value?: string | undefined;
  readonly type?: 'text' | 'email' | 'number' | 'password' | 'moment';
  readonly isList?: boolean;
  readonly hint?: string | undefined;
  readonly isRequired?: boolean;
  /** What is wrong with the value. */
  readonly error?: string | undefined;
  /** The texts of the values. For a moment: of those beside the calendar, such as `-24h`. */
  readonly options?: Readonly<Record<string, string>>;
  /** Values that exist: check boxes of a list, and suggestions for another field. */
  readonly known?: readonly string[] | undefined;
  /** Whether the field offers the known values only. */
  readonly isClosed?: boolean;
}

/** What was typed into a form, and why it was refused. */
export interface RefusedForm {
  readonly values: Readonly<Record<string, string | undefined>>;
  /** What is wrong with each field. */
  readonly errors: Readonly<Record<string, string | undefined>>;
  /** What is wrong, when it is not a field of the form. */
  readonly advice?: string;
}

/** @returns the fields with what was typed into them, and what is wrong with it; passwords are not sent back */
export function fillFields<Props extends FieldProps>(
  fields: readonly Props[],
  { values, errors }: Pick<RefusedForm, 'values' | 'errors'>,
): Props[] {
  return fields.map((field) => ({
    ...field,
    ...(field.type !== 'password' && values[field.name] !== undefined && { value: readTyped(field, values) }),
    error: errors[field.name],
  }));
}

/** @returns what was typed into a field, or the word that was chosen beside its calendar */
function readTyped({ name, type }: FieldProps, values: RefusedForm['values']): string | undefined {
  return (type === 'moment' && values[toWordName(name)]) || values[name];
}

/** What is wrong with a form, where no field says it. */
export function FormError({ refused, fields }: { refused: RefusedForm; fields: readonly FieldProps[] }): VNode {
  const others = Object.entries(refused.errors).filter(([name]) => !fields.some((field) => field.name === name));
  const text = refused.advice ?? others.map(([name, detail]) => `${name} ${detail}.`).join(' ');
  return (
    <p role="alert" class="bad">
      {text || 'Nothing was done: see what is wrong below.'}
    </p>
  );
}

export function Field(field: FieldProps): VNode {
  const { label, name, value, type = 'text', isList, isRequired, options, known = [], hint, error } = field;
  const id = `field-${name}`;
  const describedBy = [error !== undefined && `${id}-error`, hint !== undefined && `${id}-hint`].filter(Boolean);
  const common: Control = {
    id,
    name,
    required: isRequired,
    'aria-invalid': error === undefined ? undefined : true,
    'aria-describedby': describedBy.join(' ') || undefined,
  };
  const notes = (
    <>
      {error !== undefined && (
        <small id={`${id}-error`} class="bad">
          {label} {error}.
        </small>
      )}
      {hint !== undefined && <small id={`${id}-hint`}>{hint}</small>}
    </>
  );
  if (isList && known.length > 0) return <Choices {...field} common={common} notes={notes} />;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {type === 'moment' ? (
        <MomentInput {...field} common={common} />
      ) : options ? (
        <Select common={common} options={options} value={value} />
      ) : (
        <input
          {...common}
          {...({ type, value, autocomplete: 'off', list: known.length > 0 ? `${id}-known` : undefined } as object)}
        />
      )}
      {known.length > 0 && <Suggestions id={`${id}-known`} known={known} />}
      {notes}
    </div>
  );
}

function Suggestions({ id, known }: { id: string; known: readonly string[] }): VNode {
  return (
    <datalist id={id}>
      {known.map((each) => (
        <option value={each} />
      ))}
    </datalist>
  );
}

type Control = Readonly<Record<'id' | 'name', string>> & {
  readonly required?: boolean | undefined;
  readonly 'aria-label'?: string;
  readonly 'aria-invalid'?: true | undefined;
  readonly 'aria-describedby'?: string | undefined;
};

type SelectProps = { readonly common: Control; readonly value: string | undefined } & Required<
  Pick<FieldProps, 'options'>
>;

function Select({ common, options, value }: SelectProps): VNode {
  return (
    <select {...common}>
      {Object.entries(options).map(([each, text]) => (
        <option value={each} selected={each === value}>
          {text}
        </option>
      ))}
    </select>
  );
}

/** The calendar of the browser, in the reader's time zone, and moments that a word names. */
function MomentInput({ label, name, value = '', options, common }: FieldProps & { readonly common: Control }): VNode {
  const zone = useContext(TimeZone);
  const isWord = options !== undefined && Object.hasOwn(options, value);
  const attributes = { type: 'datetime-local', step: 1, value: isWord ? '' : toLocal(value, zone) };
  const words = { id: `${common.id}-word`, name: toWordName(name), 'aria-label': `${label}: from a list` };
  return (
    <>
      <input {...common} {...(attributes as object)} />
      {options && (
        <Select common={words} options={{ '': `as above, ${zone.replaceAll('_', ' ')}`, ...options }} value={value} />
      )}
    </>
  );
}

type ChoicesProps = FieldProps & { readonly common: Control; readonly notes: VNode };

/** A check box for each known word of a list, and a field for others. */
function Choices({ label, name, value = '', known = [], isClosed, common, notes }: ChoicesProps): VNode {
  const chosen = splitWords(value);
  const others = chosen.filter((word) => !known.includes(word)).join(' ');
  const isOpen = !isClosed || others !== '';
  return (
    <fieldset class="field" id={isOpen ? undefined : common.id} aria-describedby={common['aria-describedby']}>
      <legend>{label}</legend>
      {known.map((word) => (
        <label class="choice">
          <input type="checkbox" name={name} value={word} checked={chosen.includes(word)} /> {word}
        </label>
      ))}
      {isOpen && (
        <label>
          Others, with blanks between them
          <input {...common} required={false} {...({ type: 'text', value: others, autocomplete: 'off' } as object)} />
        </label>
      )}
      {notes}
    </fieldset>
  );
}

export function splitWords(text: string): string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '');
}

interface FiltersProps {
  readonly action: string;
  readonly fields: readonly FieldProps[];
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly refused?: RefusedForm | undefined;
  readonly submit?: string;
}

/** The filters of a list stand in its address, so that an operator can bookmark and send it. */
export function Filters({ action, fields, query, refused, submit = 'Show' }: FiltersProps): VNode {
  return (
    <>
      {refused && <FormError refused={refused} fields={fields} />}
      <form method="get" action={action} class="filters">
        {fields.map((field) => (
          <Field {...field} value={query[field.name]} error={refused?.errors[field.name]} />
        ))}
        <Order query={query} />
        <button type="submit">{submit}</button>
      </form>
    </>
  );
}

/** Keeps the order of a list when its filters change. */
function Order({ query: { sort } }: Pick<FiltersProps, 'query'>): VNode | null {
  return sort === undefined ? null : <input type="hidden" name="sort" value={sort} />;
}

/** The heading of rows that belong together. */
export interface RowGroup {
  readonly id: string;
  readonly text: string;
  readonly address: string;
}

export type Cells = readonly ComponentChildren[];

/** A column by which the list can be sorted. */
export interface SortedColumn {
  readonly text: string;
  /** The address of the list, sorted by this column or in the opposite direction. */
  readonly address: string;
  /** The present order of the list by this column. */
  readonly order: 'ascending' | 'descending' | undefined;
}

export type Column = string | SortedColumn;

interface TableProps {
  readonly caption: string;
  readonly head: readonly Column[];
  readonly rows: readonly Cells[];
  /** The group of each row. Rows of one group stand together, at the place of the first one. */
  readonly groups?: readonly RowGroup[] | undefined;
}

export function Table({ caption, head, rows, groups }: TableProps): VNode {
  if (rows.length === 0) return <p>{caption}: none.</p>;
  return (
    <div class="overflow" tabindex={0} role="region" aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>{head.map(toHeading)}</tr>
        </thead>
        {groups ? groupRows(rows, groups, head.length) : <tbody>{rows.map(toRow)}</tbody>}
      </table>
    </div>
  );
}

function toHeading(column: Column): VNode {
  if (typeof column === 'string') return <th scope="col">{column}</th>;
  const { text, address, order } = column;
  return (
    <th scope="col" aria-sort={order}>
      <a href={address}>
        {text}
        {order && <span aria-hidden="true">{order === 'ascending' ? ' ↑' : ' ↓'}</span>}
      </a>
    </th>
  );
}

function groupRows(rows: readonly Cells[], groups: readonly RowGroup[], width: number): VNode[] {
  const headings = new Map(groups.map((group) => [group.id, group]));
  return [...headings.values()].map(({ id, text, address }) => (
    <tbody>
      <tr>
        <th scope="rowgroup" colspan={width}>
          <a href={address}>{text}</a> <Id id={id} />
        </th>
      </tr>
      {rows.filter((_, index) => groups[index]?.id === id).map(toRow)}
    </tbody>
  ));
}

function toRow(cells: Cells): VNode {
  return (
    <tr>
      {cells.map((cell) => (
        <td>{cell}</td>
      ))}
    </tr>
  );
}

export type FactList = readonly (readonly [name: string, value: ComponentChildren])[];

export function Facts({ facts }: { facts: FactList }): VNode {
  return (
    <dl>
      {facts.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value ?? '–'}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Pager({ address, query, next }: { address: string; query: object; next: string | null }): VNode | null {
  if (next === null) return null;
  return (
    <p>
      <a href={toAddress(address, { ...query, cursor: next })} rel="next">
        Next page
      </a>
    </p>
  );
}

interface SearchProps {
  readonly session: ConsoleSession;
  readonly action: string;
  readonly fields: readonly FieldProps[];
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly refused?: RefusedForm | undefined;
}

/** Filters that are sent as a form, because an address keeps what is typed into it (ASVS 14.2.1). */
export function SearchForm({ session, action, fields, query, refused }: SearchProps): VNode {
  const filled = fields.map((field) => ({ ...field, value: query[field.name], error: refused?.errors[field.name] }));
  return (
    <>
      {refused && <FormError refused={refused} fields={fields} />}
      <Form session={session} action={action} submit="Show" layout="filters" fields={filled}>
        <Order query={query} />
      </Form>
    </>
  );
}

export function SearchPager({
  session,
  action,
  query,
  next,
}: Omit<SearchProps, 'fields' | 'refused'> & { next: string | null }) {
  if (next === null) return null;
  const fields = Object.entries({ ...query, cursor: next });
  return (
    <Form session={session} action={action} submit="Next page">
      {fields.map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
    </Form>
  );
}

/** @returns the address with the parameters that have a value */
export function toAddress(address: string, parameters: object): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== '');
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return query === '' ? address : `${address}?${query}`;
}

/** A secret that is shown once. Going back does not show it again, because browsers do not store the page. */
export function Secret({ name, text }: { name: string; text: string }): VNode {
  return (
    <figure class="secret">
      <figcaption>{name}</figcaption>
      <pre>
        <code>{text}</code>
      </pre>
      <button type="button" class="outline copy" data-copy>
        Copy
      </button>
    </figure>
  );
}

interface NamedProps {
  readonly id: string;
  /** Undefined when it is unknown, or when this operator may not read it. */
  readonly name: string | undefined;
  /** Undefined when this operator may not read its page. */
  readonly address: string | undefined;
}

/** The name of a resource, as a link to its page, with its id beside it. */
export function Named({ id, name, address }: NamedProps): VNode {
  const text = <bdi>{name ?? id}</bdi>;
  return (
    <>
      {address === undefined ? text : <a href={address}>{text}</a>} {name !== undefined && <Id id={id} />}
    </>
  );
}

/** An id that can be selected as a whole, and copied with JavaScript. */
export function Id({ id }: { id: string }): VNode {
  return (
    <span class="id">
      <code>{id}</code>{' '}
      <button type="button" class="outline copy" data-copy aria-label={`Copy ${id}`}>
        Copy
      </button>
    </span>
  );
}
