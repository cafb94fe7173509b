/** Belongs to a connection that outlives the request that opened it; close it when the connection ends. */
export interface Watch {
  close(): void;
}
