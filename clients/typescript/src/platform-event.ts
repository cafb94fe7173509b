export interface EventsOptions {
  /**
   * Called when events may have been missed, after a restore for example: compare what this service knows of users with
   * `POST /internal/users/lookup`. Called again when it fails.
   */
  readonly onReset: () => unknown;
}

/** A reason to look, not the state: what it tells may have changed again. */
export interface PlatformEvent {
  /** The same when the event comes again. */
  readonly id: string;
  /** Such as `user.deleted`. */
  readonly type: string;
  readonly time: Date;
  readonly subject: { readonly kind: string; readonly id: string };
  /** Ids, names and reasons. */
  readonly data: Readonly<Record<string, unknown>>;
}
