export interface ServiceRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The own key of this service goes with it. */
  readonly presentsOwnKey?: boolean;
  /** Polls have a connection of their own. */
  readonly isPoll?: boolean;
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

/** Refused, or broken before the answer was complete. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';

  /** @param reason what an operator needs to find the mistake: a code of Node.js, such as ECONNREFUSED. Never a message */
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
