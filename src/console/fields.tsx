/** The fields of forms and filters: inputs, calendars, lists of words, with what is wrong beside each. */
import type { VNode } from 'preact';
import { useContext } from 'preact/hooks';
import { TimeZone, toLocal, toWordName } from './moments.js';

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
    ...(isSent(field, values) && { value: readTyped(field, values) }),
    error: errors[field.name],
  }));
}

/** A browser leaves out a list of which no box is chosen. */
function isSent({ name, type, isList }: FieldProps, values: RefusedForm['values']): boolean {
  return type !== 'password' && (values[name] !== undefined || isList === true);
}

/** @returns what was typed into a field, or the word that was chosen beside its calendar */
function readTyped({ name, type }: FieldProps, values: RefusedForm['values']): string | undefined {
  return (type === 'moment' && values[toWordName(name)]) || values[name];
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
