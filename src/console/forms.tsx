/** Forms that change something, and the filters of lists. */
import type { ComponentChildren, VNode } from 'preact';
import { useContext } from 'preact/hooks';
import { createRandomId } from '../foundation/common/ids.js';
import { createFormToken, type ConsoleSession } from './console-sessions.js';
import { Field, fillFields, type FieldProps, type RefusedForm } from './fields.js';
import { CALENDAR_ZONE, isTimeZone, TimeZone } from './moments.js';

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
  readonly refused?: RefusedForm | undefined;
  readonly children?: ComponentChildren;
}

/** A form that changes something: it proves that a page of this session made it, and can be sent once. */
export function Form({
  session,
  action,
  submit,
  look,
  layout,
  seen,
  fields = [],
  refused,
  children,
}: FormProps): VNode {
  const filled = refused ? fillFields(fields, refused) : fields;
  const readersZone = useContext(TimeZone);
  const { [CALENDAR_ZONE]: typedZone = '' } = refused?.values ?? {};
  const zone = isTimeZone(typedZone) ? typedZone : readersZone;
  const hasCalendar = fields.some(({ type }) => type === 'moment');
  return (
    <form method="post" action={action} class={layout} data-once>
      <input type="hidden" name="form" value={createFormToken(session, createRandomId(), action)} />
      {seen !== undefined && <input type="hidden" name="seen" value={seen} />}
      {hasCalendar && <input type="hidden" name={CALENDAR_ZONE} value={zone} />}
      {refused && <FormError refused={refused} fields={fields} />}
      {children}
      <TimeZone.Provider value={zone}>
        {filled.map((field) => (
          <Field {...field} />
        ))}
      </TimeZone.Provider>
      <button type="submit" class={look}>
        {submit}
      </button>
    </form>
  );
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

interface QueryProps {
  readonly action: string;
  readonly fields: readonly FieldProps[];
  readonly query: Readonly<Record<string, string | undefined>>;
  readonly refused?: RefusedForm | undefined;
}

/** The filters of a list stand in its address, so that an operator can bookmark and send it. */
export function Filters({ action, fields, query, refused, submit = 'Show' }: QueryProps & { submit?: string }): VNode {
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
function Order({ query: { sort } }: Pick<QueryProps, 'query'>): VNode | null {
  return sort === undefined ? null : <input type="hidden" name="sort" value={sort} />;
}

interface SearchProps extends QueryProps {
  readonly session: ConsoleSession;
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
