/** Texts that an operator copies: secrets and ids. */
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
