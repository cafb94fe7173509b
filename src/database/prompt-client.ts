import { Client } from 'pg';

/**
 * A connection that hangs up once a statement on it was given up on (`query_timeout`). Otherwise the ROLLBACK of the
 * transaction would wait behind that statement for the same silence, and its caller twice as long as promised.
 */
export class PromptClient extends Client {
  override query(...values: unknown[]): never {
    const result: unknown = super.query(...(values as [string]));
    if (result instanceof Promise) result.catch((error: unknown) => this.hangUpAfter(error));
    return result as never;
  }

  private hangUpAfter(error: unknown): void {
    if (error instanceof Error && error.message === 'Query read timeout') this.connection.stream.destroy();
  }
}
