export interface ServiceRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Whether this service's own key is sent with the request. */
  readonly presentsOwnKey?: boolean;
  /** Polls have a connection of their own. */
  readonly isPoll?: boolean;
  /** Longer than the usual second when the service may wait; such requests have a connection of their own, too. */
  readonly timeoutMs?: number;
}

export interface ServiceAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: string;
}

/** @throws {ConnectionError} refused or broken; {TimeoutError} no connection in time; anything else: aborted */
export interface Transport {
  send(request: ServiceRequest, signal: AbortSignal): Promise<ServiceAnswer>;
  close(): void;
}

/** The connection was refused, or broke before the answer was complete. */
export class ConnectionError extends Error {
  override readonly name: string = 'ConnectionError';

  /** @param reason a code of Node.js, such as ECONNREFUSED, for the operator; never a message */
  constructor(
    message: string,
    readonly reason = 'broken',
  ) {
    super(message);
  }
}

export class TimeoutError extends Error {
  override readonly name = 'TimeoutError';
}
