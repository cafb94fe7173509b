/** Secrets and ids, which an operator copies, and names of resources, which link to their pages. */
import type { VNode } from 'preact';

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
  const text = name ?? id;
  return (
    <>
      {address === undefined ? <bdi>{text}</bdi> : <NameLink address={address} name={text} />}{' '}
      {name !== undefined && <Id id={id} />}
    </>
  );
}

export function NameLink({ address, name }: Readonly<Record<'address' | 'name', string>>): VNode {
  return (
    <a href={address}>
      <bdi>{name}</bdi>
    </a>
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
